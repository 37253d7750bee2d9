"""Kernels that skip the tuples on which a user's function fails, and continue with the others.

The function is called once for each tuple, whether tuples fail or not. So a column without a failure costs no more than
without a policy, and a failure costs little more than the exception.
"""

from collections.abc import Callable

from trident.base.errors import UserFunctionError
from trident.compiler.columns.columns import Columns, concat
from trident.compiler.columns.dead_letters import Caught, Letters
from trident.compiler.columns.function_errors import Where
from trident.compiler.columns.operation_calls import Called, CallKernel
from trident.compiler.columns.row_failures import FailedRows, Failure

_PART = 64
"""The number of tuples that one check covers after an undeclared result. Each such result repeats one check."""


def catching_kernel(kernel: CallKernel, where: Where, caught: Caught) -> Callable[[Columns, Letters], Columns]:
    """Return a kernel that adds the tuples on which its function fails to the letters, and returns the other tuples."""

    def run(columns: Columns, letters: Letters) -> Columns:
        failed: FailedRows = {}
        called = kernel.call(columns, failed)
        if failed:
            letters.add(where, caught, columns.take(list(failed)), list(failed.values()))
            called = called.without(failed)
        try:
            return kernel.finish(called)
        except UserFunctionError as error:
            if error.hopeless or error.row is None:
                raise
        rows = called.columns.rows
        parts = [called.within([(at, min(at + _PART, rows))]) for at in range(0, rows, _PART)]
        return concat([finished(part, letters) for part in parts])

    def finished(called: Called, letters: Letters) -> Columns:
        """Finish the tuples in `called`. Those for which the function returned an undeclared result go to `letters`."""
        while True:
            try:
                return kernel.finish(called)
            except UserFunctionError as error:
                if error.hopeless or error.row is None:
                    raise
                tuples, failure = called.columns.take([error.row]), Failure.of(error)
                called = called.without({error.row})
            letters.add(where, caught, tuples, [failure])

    return run
