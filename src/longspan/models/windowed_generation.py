"""`generate` for models whose cache forgets: what needs to take words back is refused before it begins."""

from typing import Any

from transformers.generation.configuration_utils import GenerationMode
from transformers.generation.utils import GenerationMixin

_ASSISTANCE = ("prompt_lookup_num_tokens", "assistant_early_exit")


class WindowedGeneration(GenerationMixin):
    """transformers' `generate`, without assisted generation."""

    def _validate_generation_mode(
        self, generation_mode: Any, generation_config: Any, generation_mode_kwargs: dict[str, Any]
    ) -> None:
        if generation_mode == GenerationMode.ASSISTED_GENERATION:
            given = {name: getattr(generation_config, name, None) for name in _ASSISTANCE}
            said = [f"{name} is {value}" for name, value in given.items() if value is not None]
            raise ValueError(
                f"{', '.join(said) or 'assistant_model is given'}; assisted generation takes back words that "
                f"the model would not say, and {type(self).__name__} cannot: its cache keeps only what its "
                "windows still see. Leave it out"
            )
        check: Any = super()._validate_generation_mode  # pyright: ignore[reportAttributeAccessIssue]
        check(generation_mode, generation_config, generation_mode_kwargs)
