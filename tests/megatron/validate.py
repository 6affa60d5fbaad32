"""Check command lines with Megatron-LM's own parser, its `validate_args`, and the configurations
that its program makes before it starts.

    python tests/megatron/validate.py CHECKOUT <questions.json >answers.json

A question is {"arguments": […], "environment": {…}, "world_size": n}; the answer is null, or what
Megatron-LM says against it.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from typing import Any

import standins

DEFAULTS = {"tokenizer_type": "GPT2BPETokenizer"}  # as Megatron-LM's pretrain_gpt.py gives them


def problem(question: dict[str, Any]) -> str | None:
    from megatron.training import argument_utils, arguments

    before = dict(os.environ)
    os.environ.update(question["environment"])
    os.environ.update(RANK="0", WORLD_SIZE=str(question["world_size"]))
    sys.argv = ["pretrain_gpt.py", *question["arguments"]]
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            args = arguments.parse_args()
            arguments.validate_args(args, DEFAULTS)
            args.padded_vocab_size = args.padded_vocab_size or 50304  # the tokenizer would say it
            model = argument_utils.gpt_config_from_args(args)
            argument_utils.pretrain_cfg_container_from_args(args, model)
    except SystemExit:
        return printed.getvalue().splitlines()[-1]
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    finally:
        os.environ.clear()
        os.environ.update(before)
    return None


if __name__ == "__main__":
    standins.install(sys.argv[1])
    from megatron.core.models.common.embeddings import rope_utils

    rope_utils.fused_apply_rotary_pos_emb = rope_utils.fused_apply_rotary_pos_emb or print
    json.dump([problem(question) for question in json.load(sys.stdin)], sys.stdout)
