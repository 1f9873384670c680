"""From a base model to one that answers: stories, conversations, a question, in seconds on one core.

The answer goes to stderr: so small a model knows how one answers, and not what. Try 2000 steps.

Prints:
    new special tokens: ['<|system|>', '<|user|>', '<|assistant|>', '<|end|>']
    the loss on answers fell by more than half: True
    the answer ends by itself: True
"""

import sys
import tempfile
from pathlib import Path

import tokenmill as tm
from tokenmill import chat
from tokenmill.lm import small_world, small_world_questions

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 60
folder = Path(tempfile.mkdtemp())
how = {"max_steps": steps, "batch_size": 8, "lr": 3e-3, "device": "cpu", "threads": 1}
stories = list(small_world.stories(seed=1, count=1000))
tokenizer = tm.train(tm.documents(stories), vocab_size=512)
tm.encode_dataset(tm.documents(stories), tokenizer, folder / "ids")
shape = tm.lm.preset("1m", vocab_size=512, num_layers=2, d_model=64, num_heads=2)
tm.lm.pretrain(folder / "ids", folder / "base", model=shape, **how)
rows = small_world_questions.sft_rows(seed=1, count=1000)
(folder / "rows.jsonl").write_text("".join(map(small_world_questions.as_line, rows)))
chats = tm.encode_dataset(folder / "rows.jsonl", tokenizer, folder / "chats", mode="sft")
print("new special tokens:", list(chats.tokenizer.special_tokens)[1:])
seen = []
made = tm.lm.sft(folder / "chats", folder / "sft", base=folder / "base", on_step=seen.append, **how)
print("the loss on answers fell by more than half:", seen[-1].loss < seen[0].loss / 2)

asked = [{"role": "user", "content": "On Friday, Zoe took her red hat home. What did Zoe have?"}]
prompt = chat.render(chats.tokenizer, "chat", asked, add_generation_prompt=True)
draw = {"stop_tokens": ["<|end|>"], "temperature": 0.0, "max_tokens": 32}
answer = tm.lm.generate(made.model, chats.tokenizer, [prompt.ids], **draw)[0]
print("the answer ends by itself:", answer.ended_by != "max_tokens")
print(answer.text, file=sys.stderr)
