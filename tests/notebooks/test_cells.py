"""Cells in a real kernel: a cell runs twice, is edited, looks at a stream, and fails."""

import re
from collections.abc import Iterator

import pytest

from tests.support.notebook_kernel import Kernel

SETUP = """
from trident import Count, TridentTopology
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState
topology = TridentTopology()
"""
WORDS = 'words = topology.newStream("words", FixedBatchSpout("word string", [["dog", "cat"]]))'
COUNTS = 'counts = words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")'


@pytest.fixture(scope="module")
def process() -> Iterator[Kernel]:
    kernel = Kernel()
    try:
        yield kernel
    finally:
        kernel.stop()


@pytest.fixture
def kernel(process: Kernel) -> Kernel:
    """A kernel whose variable `topology` is new."""
    assert process.run(SETUP) == ""
    return process


def steps(kernel: Kernel) -> list[str]:
    """The labels of the topology's steps."""
    return eval(kernel.run("[node.step for node in topology._register.nodes]"))  # type: ignore[no-any-return]


@pytest.mark.parametrize("cell", ["cell-1", None], ids=["a front end that names cells", "one that does not"])
def test_a_cell_that_runs_again_replaces_what_it_defined(kernel: Kernel, cell: str | None) -> None:
    code = f"{WORDS}\n{COUNTS}\nwords.peek(print).foreachArrow(print)"
    kernel.run(code, cell)
    once = steps(kernel)
    note = kernel.run(code, cell)
    assert note.startswith(
        "This cell ran before. It replaces: stream 'words', state 'counts', output 'words.foreachArrow'."
    )
    assert steps(kernel) == once, "the numbers in the labels, too"


def test_an_edited_cell_replaces_what_it_defined_before_it_was_edited(kernel: Kernel) -> None:
    kernel.run(WORDS, "w")
    kernel.run("words.peek(print)", "p")
    kernel.run("words.peek(len)", "p")
    assert steps(kernel) == ["words/0:newStream(FixedBatchSpout)", "words/1:peek(len)"]


def test_a_cell_that_takes_a_name_of_another_cell_is_refused(kernel: Kernel) -> None:
    output = 'words.foreachArrow(print, name="out")'
    folder = 'words.writeParquet("words-of-cells", name="files")'
    kernel.run(f"{WORDS}\n{COUNTS}\n{output}\n{folder}", "w")
    for code, taken in (
        (WORDS, "words/0:newStream: a stream of this name already begins at In["),
        (COUNTS, "state 'counts' is already updated by words/"),
        (output, "there is already an output 'out', words/"),
        (folder.replace("files", "more"), "writes to "),
    ):
        error = kernel.run(code, "other")
        assert "DuplicateNameError: " in error and taken in error
        assert re.search(r"; to replace it, edit and run In\[\d+\], or run the cell that makes the Trident", error), (
            error
        )
    error = kernel.run(f"{COUNTS.replace('counts', 'more')}\n" * 2, "twice")
    assert "DuplicateNameError" in error and "to replace it" not in error, "it is this cell that has the name twice"


def test_what_other_cells_built_on_a_replaced_stream_goes_with_it_and_is_named(kernel: Kernel) -> None:
    kernel.run(WORDS, "w")
    kernel.run(f"pairs = words.map('word', str.upper, 'upper string')\n{COUNTS}", "c")
    note = kernel.run(WORDS, "w")
    assert "Removed, because they were built on these: state 'counts' (In[" in note
    assert steps(kernel) == ["words/0:newStream(FixedBatchSpout)"]
    refused = kernel.run("pairs.peek(print)", "p")
    assert "it follows words/1:map" in refused and "replaced when its cell ran again" in refused
    kernel.run(f"pairs = words.map('word', str.upper, 'upper string')\n{COUNTS}", "c")
    kernel.run("pairs.peek(print)", "p")
    assert steps(kernel)[1:] == ["words/1:map(str.upper)", "words/2:persistentAggregate(Count)", "words/3:peek(print)"]


def test_a_function_of_another_cell_goes_as_a_whole_with_the_state_that_it_asks(kernel: Kernel) -> None:
    asks = "topology.newDRPCStream('one').stateQuery(counts, 'args', MapGet(), 'n')"
    kernel.run(f"{WORDS}\n{COUNTS}\nfrom trident import MapGet", "d")
    kernel.run(asks, "q")
    note = kernel.run(f"{WORDS}\n{COUNTS}", "d")
    assert "Removed, because they were built on these: function 'one' (In[" in note
    assert kernel.run("list(topology._register.functions)") == "[]"
    kernel.run(asks, "q")
    assert kernel.run("list(topology._register.functions)") == "['one']"


def test_a_cell_with_the_last_steps_of_a_function_runs_again_alone(kernel: Kernel) -> None:
    kernel.run("asked = topology.newDRPCStream('one')", "f")
    last = "answer = asked.map('args', str.upper, 'upper string')"
    kernel.run(last, "m")
    kernel.run("answer.project('upper')", "p")
    note = kernel.run(last, "m")
    assert "Removed, because they were built on these: one()/2:project (In[" in note
    assert steps(kernel) == ["one()/0:newDRPCStream", "one()/1:map(str.upper)"]


def test_looking_at_a_stream_leaves_nothing_in_the_topology(kernel: Kernel) -> None:
    kernel.run(WORDS)
    before = steps(kernel)
    assert "DOG" in kernel.run("words.map('word', str.upper, 'upper string').show()")
    assert "DOG" in kernel.run("print(words.map('word', str.upper, 'upper string').take(1))")
    assert steps(kernel) == before


def test_a_stream_that_a_variable_holds_stays_when_it_is_looked_at(kernel: Kernel) -> None:
    kernel.run(WORDS)
    kernel.run("upper = words.map('word', str.upper, 'upper string'); upper.show()")
    assert len(steps(kernel)) == 2
    kernel.run("upper.foreachArrow(print); del upper")
    assert len(steps(kernel)) == 3


def test_an_error_is_shown_in_at_most_five_lines_that_name_cell_and_line(kernel: Kernel) -> None:
    kernel.run(WORDS)
    shown = kernel.run("first = 1\nwords.project('wrod')")
    number = int(shown.partition("In[")[2].partition("]")[0])
    assert "FieldNotFoundError" in shown and f"called at In[{number}] line 2" in shown
    assert f"  at In[{number}] line 2: words.project('wrod')" in shown
    assert len(shown.splitlines()) <= 5


def test_the_whole_traceback_is_there_for_those_who_ask(kernel: Kernel) -> None:
    kernel.run(WORDS)
    kernel.run("%xmode Verbose")
    try:
        assert "Traceback (most recent call last)" in kernel.run("words.project('wrod')")
    finally:
        kernel.run("%xmode Context")
