"""Lists of results that are expected to fail, each with its reason."""
import fnmatch


class KnownMisses:
    """Lines `MODES CASE: reason`, both with wildcards; MODES may be several, commas apart."""

    def __init__(self, path):
        self.rows = []
        for line in path.read_text().splitlines():
            if line.strip() and not line.startswith("#"):
                head, reason = line.split(": ", 1)
                modes, case = head.split()
                self.rows.append((modes.split(","), case, reason))

    def reason(self, mode, case):
        for modes, pattern, reason in self.rows:
            in_mode = any(fnmatch.fnmatchcase(mode, wanted) for wanted in modes)
            if in_mode and fnmatch.fnmatchcase(case, pattern):
                return reason
        return None


def print_table(header, rows):
    cells = [[str(cell) for cell in row] for row in [header, *rows]]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    for row in cells:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
