"""Chats: profiles, templates, rows of conversations.

>>> import tokenmill as tm
>>> from tokenmill import chat
>>> base = tm.train(tm.documents(["hello there"] * 9), vocab_size=265)
>>> tokenizer = chat.prepare_tokenizer(base, "chat")
>>> messages = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hello"}]
>>> chat.render(tokenizer, "chat", messages).text
'<|user|>hello<|end|><|assistant|>hello<|end|>'
"""

from tokenmill.chat.encoder import EncodedRows, RowOptions, encode_rows
from tokenmill.chat.jinja_export import jinja_template
from tokenmill.chat.prepare import prepare_tokenizer
from tokenmill.chat.profile_file import find_profile, read_profile
from tokenmill.chat.profiles import PROFILES, Profile, Role
from tokenmill.chat.rendering import Rendered, render
from tokenmill.sources.json_rows import rows_as_json

__all__ = [
    "PROFILES",
    "EncodedRows",
    "Profile",
    "Rendered",
    "Role",
    "RowOptions",
    "encode_rows",
    "find_profile",
    "jinja_template",
    "prepare_tokenizer",
    "read_profile",
    "render",
    "rows_as_json",
]
