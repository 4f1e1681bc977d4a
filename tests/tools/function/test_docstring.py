"""What a docstring says about parameters, in the three forms people write."""

from __future__ import annotations

from textwrap import dedent

import pytest

from treadle.tools.function.docstring import Docstring, read_docstring

NAMES = ["ctx", "city", "days", "nights"]


def read(text: str) -> Docstring:
    return read_docstring(dedent(text), NAMES)


GOOGLE = """
    Forecast for a city.

    Ask before a trip.

    Args:
        ctx: The context.
        city: Name of
            the city.
        days (int, optional): How many days ahead, 1 to 7.

    Returns:
        str: one line a day.
    """
NUMPY = """
    Forecast for a city.

    Ask before a trip.

    Parameters
    ----------
    ctx
        The context.
    city : str
        Name of
        the city.
    days : int, optional
        How many days ahead, 1 to 7.

    Returns
    -------
    str
        One line a day.
    """
REST = """
    Forecast for a city.

    Ask before a trip.

    :param ctx: The context.
    :param city: Name of
        the city.
    :type city: str
    :param int days: How many days ahead, 1 to 7.
    :returns: one line a day.
    """


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, REST])
def test_the_three_forms_say_the_same_of_the_parameters(text: str) -> None:
    assert read(text).parameters == {
        "ctx": "The context.",
        "city": "Name of the city.",
        "days": "How many days ahead, 1 to 7.",
    }


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, REST])
def test_sections_for_programmers_stay_out_of_the_text(text: str) -> None:
    assert read(text).text == "Forecast for a city.\n\nAsk before a trip."


def test_raises_examples_notes_and_fields_are_left_out_and_admonitions_stay() -> None:
    docs = read("""
        Sum.

        Returns: a number.

        Raises:
            ValueError: For a city
                that is unknown.

        Example:
            >>> forecast("Paris")

        Note:
            In Celsius.

        See Also
        --------
        other : Else.

        Notes
        -----
        How it works.

        Afterwards
        ----------
        Kept, returns: and all.

        :raises KeyError: For a day
            before today.
        :rtype: str
        """)
    assert (
        docs.text
        == "Sum.\n\nNote:\n    In Celsius.\n\nAfterwards\n----------\nKept, returns: and all."
    )


def test_a_docstring_of_such_a_section_alone_is_the_text() -> None:
    assert read("Returns:\n    The weather.").text == "Returns:\nThe weather."


@pytest.mark.parametrize("nothing", [None, "", "  \n  "])
def test_no_docstring_is_no_text(nothing: str | None) -> None:
    assert read_docstring(nothing, NAMES) == Docstring("", {})


def test_a_colon_in_prose_names_no_parameter() -> None:
    text = "Careful with the city: it is large.\n\nNote:\n    city: a big one"
    assert read(text) == Docstring(text, {})


def test_a_section_that_names_no_parameter_stays_where_it_is() -> None:
    text = "Runs a program.\n\nArguments:\n    are joined by spaces"
    assert read(text) == Docstring(text, {})


def test_paragraphs_and_list_items_keep_their_lines() -> None:
    docs = read("""
        Sum.

        Args:
            city: One of
                - Paris
                - Rome, which is
                  warm

                Or another.
            days: Few.
        """)
    assert docs.parameters == {
        "city": "One of\n- Paris\n- Rome, which is warm\n\nOr another.",
        "days": "Few.",
    }


def test_a_deeper_line_is_never_a_parameter() -> None:
    docs = read("""
        Args:
            city: As in
                days: of old.
        """)
    assert docs.parameters == {"city": "As in days: of old."}


def test_words_about_a_parameter_that_is_not_there_are_dropped() -> None:
    docs = read("""
        Sum.

        Args:
            city: Name.
            country: Gone since
                long.
            **options: More.
            days: Few.
        """)
    assert docs == Docstring("Sum.", {"city": "Name.", "days": "Few."})


def test_brackets_and_colons_in_a_google_type_are_skipped() -> None:
    docs = read(
        "Args:\n    city (dict[str, tuple(int, int)]): Pairs (e.g. a: b).\n    days: At 10:30."
    )
    assert docs.parameters == {"city": "Pairs (e.g. a: b).", "days": "At 10:30."}


def test_numpy_names_that_share_a_line_share_the_words() -> None:
    docs = read("""
        Sum.

        Parameters
        ----------
        days, nights : int
            How many.

        Other Parameters
        ----------------
        city
            Name.

        Notes
        -----
        None.
        """)
    assert docs == Docstring("Sum.", {"days": "How many.", "nights": "How many.", "city": "Name."})


def test_rest_fields_may_go_on_without_indentation_until_the_next_field_or_a_blank_line() -> None:
    docs = read(":param city: Name\nof the city.\n@param days: Few.\n:rtype: str\n\nAfterwards.")
    assert docs == Docstring("Afterwards.", {"city": "Name of the city.", "days": "Few."})


def test_a_rest_field_of_no_parameter_is_dropped() -> None:
    assert read("Sum.\n\n:param country: Gone since\n    long.\n:param city: Name.") == Docstring(
        "Sum.", {"city": "Name."}
    )


def test_a_rest_field_holds_deeper_paragraphs() -> None:
    docs = read(":param city: Name.\n\n    Of any size.\n\nAfterwards.")
    assert docs == Docstring("Afterwards.", {"city": "Name.\n\nOf any size."})


def test_a_header_at_the_very_end_is_text() -> None:
    assert read("Sum.\n\nArgs:").text == "Sum.\n\nArgs:"
    assert read("Sum.\n\nParameters\n----------").text == "Sum.\n\nParameters\n----------"
