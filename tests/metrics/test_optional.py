"""What scores need: no torch, and for some of them a package that the error names."""

import subprocess
import sys

MODULES = (
    "answers",
    "classification",
    "coreference",
    "hotpotqa",
    "language",
    "summaries",
    "tagging",
)
HEAVY = ("torch", "transformers", "numpy", "scipy", "sklearn", "nltk")


def run_python(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_scores_imports_nothing_heavy() -> None:
    program = f"""
import importlib, sys
for name in {MODULES}:
    importlib.import_module("longspan.metrics." + name)
print([name for name in {HEAVY} if name in sys.modules])
"""
    assert run_python(program).strip() == "[]"


def test_a_missing_package_is_named_with_its_extra() -> None:
    program = """
import sys
for name in ("scorch", "seqeval", "rouge_score"):
    sys.modules[name] = None
from longspan.metrics.coreference import score_coreference
from longspan.metrics.summaries import score_summaries
from longspan.metrics.tagging import score_tags
for score in (score_coreference, score_tags, score_summaries):
    try:
        score({}, {})
    except ModuleNotFoundError as error:
        print(error)
"""
    advice = "install it with: pip install 'longspan[tasks]'"
    assert run_python(program).splitlines() == [
        f"this score needs the package {package}; {advice}"
        for package in ("scorch", "seqeval", "rouge-score")
    ]
