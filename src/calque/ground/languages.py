"""The names of languages."""


def language_name(code: str) -> str:
    """The English name of a language, where the package babel is installed and knows it; else its code."""
    try:
        from babel import Locale, UnknownLocaleError
    except ImportError:
        return code
    try:
        return Locale.parse(code.replace("-", "_")).get_display_name("en") or code
    except (UnknownLocaleError, ValueError):
        return code
