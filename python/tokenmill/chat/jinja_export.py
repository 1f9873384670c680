"""A profile as a Jinja chat template, the file that transformers and servers render.

It renders to the same text as `rendering.py`, with `{% generation %}` around what is trained on, so
`apply_chat_template(…, return_assistant_tokens_mask=True)` gives the same ids and mask. One thing it
cannot do: in rendered text nobody can tell a special token of the template from one that a user
wrote (docs/chat.md).
"""

from tokenmill.chat.profiles import Profile, Role

_CONTENT = (
    "{{%- set content = {message}['content'] if {message}['content'] is string"
    " else {message}['content'] | map(attribute='text') | join('') -%}}"
)
_MISPLACED = (
    "{{- raise_exception('a system message belongs in front of the first user message') -}}"
)


def jinja_template(profile: Profile) -> str:
    """The text of `chat_template.jinja`."""
    lines: list[str] = []
    if profile.bos:
        lines.append(f"{{{{- {_literal(profile.bos)} -}}}}")
    if profile.merge_system is not None:
        lines += _take_system(profile.merge_system)
    lines += [
        "{%- for message in messages -%}",
        "    " + _CONTENT.format(message="message"),
    ]
    if profile.merge_system is not None:
        lines.append("    {%- set content = (system if loop.first else '') + content -%}")
    for index, (name, role) in enumerate(profile.roles.items()):
        lines.append(
            f"    {{%- {'elif' if index else 'if'} message['role'] == {_literal(name)} -%}}"
        )
        lines += ["        " + line for line in _turn(profile, role)]
    lines += [
        "    {%- else -%}",
        "        {{- raise_exception('unknown role ' + message['role']) -}}",
        "    {%- endif -%}",
        "{%- endfor -%}",
        "{%- if add_generation_prompt -%}",
        f"    {{{{- {_literal(profile.roles['assistant'].before)} -}}}}",
        "{%- endif -%}",
    ]
    return "".join(f"{line}\n" for line in lines)


def _take_system(between: str) -> list[str]:
    return [
        "{%- set system = '' -%}",
        "{%- if messages and messages[0]['role'] == 'system' -%}",
        "    " + _CONTENT.format(message="messages[0]"),
        f"    {{%- set system = content + {_literal(between)} -%}}",
        "    {%- set messages = messages[1:] -%}",
        "    {%- if not messages or messages[0]['role'] != 'user' -%}",
        f"        {_MISPLACED}",
        "    {%- endif -%}",
        "{%- endif -%}",
    ]


def _turn(profile: Profile, role: Role) -> list[str]:
    before, after = role.before, role.after
    if not role.trained:
        around = [_literal(before)] if before else []
        around += ["content"]
        around += [_literal(after)] if after else []
        return [f"{{{{- {' + '.join(around)} -}}}}"]
    pieces = profile.pieces(after)
    trained = "".join(piece.text for piece in pieces[: profile.num_trained_after(role)])
    rest = after[len(trained) :]
    says = f"content + {_literal(trained)}" if trained else "content"
    lines = [f"{{{{- {_literal(before)} -}}}}"] if before else []
    lines.append(f"{{%- generation -%}}{{{{- {says} -}}}}{{%- endgeneration -%}}")
    if rest:
        lines.append(f"{{{{- {_literal(rest)} -}}}}")
    return lines


def _literal(text: str) -> str:
    """`text` as a string in Jinja, which knows the escapes of Python."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return "'" + "".join(c if c.isprintable() else _escape(c) for c in escaped) + "'"


def _escape(letter: str) -> str:
    return letter.encode("unicode_escape").decode()
