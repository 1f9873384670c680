"""A tokenizer made ready for chats: the special tokens of a profile added, its template on board."""

import os

from tokenmill.chat.jinja_export import jinja_template
from tokenmill.chat.profile_file import find_profile
from tokenmill.chat.profiles import Profile
from tokenmill.tokenizer.tokenizer import Tokenizer


def prepare_tokenizer(
    tokenizer: Tokenizer, profile: str | os.PathLike[str] | Profile = "chat"
) -> Tokenizer:
    """`tokenizer` with the special tokens of `profile` and its template as `chat_template`.

    Special tokens it lacks get new ids behind the last one; all others stay as they are. Saved, the
    folder has a `chat_template.jinja` that transformers finds by itself.
    """
    profile = find_profile(profile)
    missing = [token for token in profile.special_tokens if token not in tokenizer.special_tokens]
    extended = tokenizer.with_special_tokens(missing) if missing else tokenizer
    template = jinja_template(profile)
    return extended if extended.chat_template == template else extended.with_chat_template(template)
