"""The command line as ``python -m trident``, for environments in which the script is not on the path."""

from trident.cli.main import main

if __name__ == "__main__":
    main(prog_name="trident")
