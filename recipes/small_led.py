"""Makes the small LED of the summaries: an encoder made long, and a new decoder.

python recipes/small_led.py --model models/granite-30m-english --out runs/small-led
"""

import argparse
from pathlib import Path

from transformers import AutoTokenizer
from transformers.utils import logging

from longspan.conversion.encoder_into_led import encoder_into_led
from longspan.tasks.models import ModelSettings, load_model


def main() -> None:
    """Builds and saves it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, default=Path("models/granite-30m-english"))
    parser.add_argument("--out", type=Path, default=Path("runs/small-led"))
    parser.add_argument("--layers", type=int, default=4, help="of the encoder, the lowest")
    parser.add_argument("--max-length", type=int, default=16384)
    parser.add_argument("--window", type=int, default=512)
    parser.add_argument("--decoder-layers", type=int, default=3)
    where = parser.parse_args()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    model = encoder_into_led(
        load_model(ModelSettings(source=str(where.model), layers=where.layers), None),
        max_length=where.max_length,
        window=where.window,
        decoder_layers=where.decoder_layers,
    )
    model.save_pretrained(where.out)
    AutoTokenizer.from_pretrained(where.model).save_pretrained(where.out)
    print(f"{where.out}: {model.num_parameters() / 1e6:.1f}M parameters")


if __name__ == "__main__":
    main()
