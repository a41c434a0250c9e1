"""Nothing a value says becomes part of the page's own text."""

from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from speciate.reporting.markup import Markup, join, tag

texts = st.text(st.characters(exclude_categories=("Cs", "Cc")))


class Reader(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.attributes, self.data = [], {}, ""

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes.update(attrs)

    def handle_data(self, data):
        self.data += data


@given(texts, texts)
def test_any_text_and_attribute_is_read_back_as_it_was(text, value):
    reader = Reader()
    reader.feed(tag("p", text, title=value))
    reader.close()
    assert (reader.tags, reader.data, reader.attributes) == (["p"], text, {"title": value})


def test_markup_is_kept_and_attributes_can_be_left_out():
    inside = tag("b", "1 < 2")
    assert tag("p", inside, [inside, "&"], class_=None, hidden=True, data_value=0.5) == (
        '<p hidden data-value="0.5"><b>1 &lt; 2</b><b>1 &lt; 2</b>&amp;</p>'
    )
    assert tag("meta", charset="utf-8") == '<meta charset="utf-8">'
    assert isinstance(join("<", Markup("<i>")), Markup)
