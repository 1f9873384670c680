"""One adapter file per trainer. `PEERS` lists what is known of each without importing its library."""

from bench.peers import (
    bpeasy,
    fast_bpe_rs,
    gigatoken,
    rustbpe,
    tokenizers,
    uni_tokenizer,
)
from bench.peers.peer import Peer

PEERS: dict[str, Peer] = {
    peer.name: peer
    for peer in (
        tokenizers.PEER,
        rustbpe.PEER,
        gigatoken.PEER,
        bpeasy.PEER,
        uni_tokenizer.PEER,
        fast_bpe_rs.PEER,
    )
}
