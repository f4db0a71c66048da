"""On a machine that announces AMX and has none, bf16 products of torch still work."""

import subprocess
import sys


def test_bf16_products_do_not_kill_the_process() -> None:
    product = "x = torch.ones(64, 64).bfloat16(); print((x @ x).max().item())"
    program = f"import torch, longspan.attention.library; {product}"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (run.returncode, run.stdout.strip()) == (0, "64.0"), run.stderr
