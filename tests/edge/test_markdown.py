"""Rendered answers as Markdown again: what a reader sees stays, with the signs of its structure."""

from __future__ import annotations

import pytest

from gptbridge.edge.markdown import markdown_of


@pytest.mark.parametrize(("markup", "expected"), [
    ("", ""),
    ("<p>a <strong>b</strong> <em>i</em> <code>c*d_</code></p><p>5 * 3, snake_case, 1 &lt; 2 &amp; $5</p>",
     "a **b** *i* `c*d_`\n\n5 * 3, snake_case, 1 < 2 & $5"),
    (r"<p>Inline \( x_1^2 \) and</p><p>\[ s = \sum_i \]</p>", "Inline \\( x_1^2 \\) and\n\n\\[ s = \\sum_i \\]"),
    ('<pre><code class="language-py">x = 1\n\n  &gt; y\n</code></pre>', "```py\nx = 1\n\n  > y\n```"),
    ("<p>Then:</p><blockquote><p>q</p></blockquote><p>l</p>", "Then:\n\n> q\n\nl"),
    ('<ul><li>one<ul><li>two</li></ul></li><li><input type="checkbox" checked disabled> t</li></ul>', "- one\n  - two\n- [x] t"),
    ("<table><tr><th>a</th></tr><tr><td>2 | 3</td></tr></table>", "| a |\n| --- |\n| 2 \\| 3 |"),
    ('<p><a href="https://example.org/a?b=1&amp;c=2">W</a> 😀 שלום</p>', "[W](https://example.org/a?b=1&c=2) 😀 שלום"),
    ("<p>one<br>two</p><hr><h2>H</h2>", "one\\\ntwo\n\n---\n\n## H"),
])
def test_markup_and_its_markdown(markup: str, expected: str) -> None:
    assert markdown_of(markup) == expected


def test_nothing_makes_it_raise() -> None:
    for markup in ("<", "</p>", "<p>" * 5000 + "deep", "\0\ufffe", "<script>x</script>", "<table><li><pre>", "&#xD800;", "\ud800 lone"):
        assert isinstance(markdown_of(markup), str)
