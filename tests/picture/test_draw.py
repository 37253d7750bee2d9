"""Pictures of topologies: one model and four writers."""

import json
import xml.etree.ElementTree as xml
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.picture.examples import visits, word_count
from tests.picture.window_example import hours
from tests.support.golden import check_golden
from tests.support.topologies import DeclaredState, stream
from trident import Count, MapGet, TridentTopology
from trident.errors import TopologyError
from trident.picture.draw import as_html
from trident.picture.layout import PictureLayout, Rectangle, lay_out
from trident.picture.picture import Arrow, Box, Cluster, Picture, picture
from trident.spouts import FixedBatchSpout

HERE = Path(__file__).parent
SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("make", [word_count, visits, hours])
@pytest.mark.parametrize("format", ["mermaid", "dot", "svg"])
def test_a_topology_is_drawn(make, format: str) -> None:  # type: ignore[no-untyped-def]
    check_golden(HERE, f"{make.__name__}.{format}", make().draw(format))


def test_the_model_itself_is_json() -> None:
    drawn = json.loads(word_count().draw("json"))
    assert [cluster["title"] for cluster in drawn["clusters"]] == ["batch group sentences", "DRPC function words"]
    titles = {box["id"]: box["title"] for box in drawn["boxes"]}
    arrows = {(titles[a["source"]], titles[a["target"]], a["dashed"]) for a in drawn["arrows"]}
    assert ("sentences", "each(split)", False) in arrows
    assert ("persistentAggregate(Count)", "counts", False) in arrows
    assert ("counts", "stateQuery(MapGet)", True) in arrows


def test_groups_that_share_no_batch_stand_apart() -> None:
    titles = [cluster.title for cluster in picture(visits()._ends()).clusters]
    assert titles == ["batch group clicks", "batch group beats", "DRPC function top", "DRPC function echo"]


def test_everything_that_is_shown_in_a_cell_draws_itself() -> None:
    words = stream("word string", "words")
    state = words.groupBy("word").persistentAggregate(DeclaredState(), Count(), "count")
    for shown in (words, words.groupBy("word"), state, word_count()):
        bundle = shown._repr_mimebundle_()
        assert set(bundle) == {"text/plain", "text/html", "image/svg+xml"}
        assert bundle["text/plain"] == repr(shown)
        assert shown._repr_svg_() == bundle["image/svg+xml"]
        assert bundle["text/html"] == as_html(bundle["image/svg+xml"])
        assert xml.fromstring(bundle["image/svg+xml"]).tag == f"{SVG}svg"


def test_an_empty_topology_can_be_drawn() -> None:
    for format in ("svg", "mermaid", "dot", "json"):
        assert TridentTopology().draw(format)


def test_text_from_users_cannot_break_out() -> None:
    evil = stream('`<script>"x"&y` string', "s").each(lambda t: 1, '`"]; <b>` long')
    root = xml.fromstring(evil.draw("svg"))
    assert '+ `"]; <b>` bigint' in [text.text for text in root.iter(f"{SVG}text")]
    assert not list(root.iter(f"{SVG}script"))
    assert "#lt;script#gt;#quot;x#quot;" in evil.draw("mermaid")
    assert '\\"]; <b>' in evil.draw("dot")


def test_two_pictures_on_one_page_have_markers_of_their_own() -> None:
    def markers(svg: str) -> set[str]:
        return {marker.attrib["id"] for marker in xml.fromstring(svg).iter(f"{SVG}marker")}

    assert markers(word_count().draw()) & markers(visits().draw()) == set()


def test_another_format_is_refused() -> None:
    with pytest.raises(TopologyError, match="unknown picture format 'png'; expected one of svg, mermaid, dot, json"):
        stream().draw("png")


# --- the layout, over any graph ----------------------------------------------------------------------------------


@st.composite
def pictures(draw: st.DrawFn) -> Picture:
    size = draw(st.integers(1, 14))
    clusters = draw(st.integers(1, 3))
    boxes = tuple(
        Box(
            f"b{at}",
            draw(st.sampled_from(["step", "state", "source"])),
            "x" * draw(st.integers(1, 60)),
            (),
            "",
            f"c{cluster}",
        )
        for at in range(size)
        for cluster in [draw(st.integers(1, clusters))]
    )
    pairs = st.tuples(st.integers(0, size - 1), st.integers(0, size - 1))
    arrows = tuple(
        Arrow(f"b{min(pair)}", f"b{max(pair)}") for pair in draw(st.lists(pairs, max_size=20)) if pair[0] != pair[1]
    )
    return Picture(boxes, arrows, tuple(Cluster(f"c{at}", f"cluster {at}") for at in range(1, clusters + 1)))


def apart(a: Rectangle, b: Rectangle) -> bool:
    return a.x + a.width <= b.x or b.x + b.width <= a.x or a.y + a.height <= b.y or b.y + b.height <= a.y


def within(inner: Rectangle, outer: Rectangle) -> bool:
    return (
        outer.x <= inner.x
        and outer.y <= inner.y
        and inner.x + inner.width <= outer.x + outer.width
        and inner.y + inner.height <= outer.y + outer.height
    )


@given(pictures())
@settings(max_examples=200, deadline=None)
def test_boxes_never_overlap_and_arrows_run_down(drawn: Picture) -> None:
    layout: PictureLayout = lay_out(drawn)
    frames = list(layout.boxes.values())
    assert all(apart(a, b) for at, a in enumerate(frames) for b in frames[:at])
    assert all(within(layout.boxes[box.id], layout.clusters[box.cluster]) for box in drawn.boxes)
    assert all(within(frame, Rectangle(0, 0, layout.width, layout.height)) for frame in layout.clusters.values())
    cluster = {box.id: box.cluster for box in drawn.boxes}
    for at, arrow in enumerate(drawn.arrows):
        if cluster[arrow.source] == cluster[arrow.target]:
            heights = [y for _, y in layout.routes[at]]
            assert heights == sorted(heights)
            assert heights[0] == layout.boxes[arrow.source].y + layout.boxes[arrow.source].height
            assert heights[-1] == layout.boxes[arrow.target].y


def test_a_picture_is_never_wider_than_its_page() -> None:
    root = xml.fromstring(word_count().draw("svg"))
    assert root.get("style") == "max-width:100%;height:auto"
    assert root.get("viewBox") == f"0 0 {root.get('width')} {root.get('height')}"


def test_a_picture_on_a_narrow_page_shrinks_to_what_can_be_read_and_then_scrolls() -> None:
    svg = word_count().draw("svg")
    width = int(xml.fromstring(svg).get("width") or 0)
    least = round(0.6 * width)
    assert as_html(svg) == f'<div style="overflow-x:auto"><div style="min-width:{least}px">{svg}</div></div>'


def test_a_static_state_that_only_functions_ask_has_a_cluster_of_its_own() -> None:
    topology = TridentTopology()
    names = topology.newStaticState({1: "ann"}, keyFields="user long", valueType="string", name="names")
    topology.newDRPCStream("name", "user long").stateQuery(names, "user", MapGet(), "name")
    drawn = picture(topology._ends())
    assert [cluster.title for cluster in drawn.clusters] == ["static state", "DRPC function name"]
    assert "names" in topology.draw()


def test_arrows_say_which_streams_carry_changes() -> None:
    topology = TridentTopology()
    rows = topology.newStream("rows", FixedBatchSpout("id long, v long, kind string", [])).asChanges("kind")
    rows.toTable("id", name="table").changes().foreachArrow(print)
    labels = {arrow["label"] for arrow in json.loads(topology.draw("json"))["arrows"]}
    assert labels == {"", "changes"}


def test_the_arrow_from_a_window_says_whether_it_carries_changes() -> None:
    for emit, expected in (("changes", ["changes"]), ("final", [""])):
        topology = TridentTopology()
        rows = topology.newStream("rows", FixedBatchSpout("id long, at timestamp", []))
        windows: Any = rows.tumblingWindow("1 hour", Count(), "n", name="w", emit=emit)  # type: ignore[call-overload]
        windows.foreachArrow(print, name="out")
        drawn = json.loads(topology.draw("json"))
        (output,) = [box["id"] for box in drawn["boxes"] if box["step"].startswith("rows/2")]
        assert [arrow["label"] for arrow in drawn["arrows"] if arrow["target"] == output] == expected
