"""`python -m gptbridge` is `ask-gpt`."""

import sys

if __name__ == "__main__":
    try:
        from gptbridge.shell.cli import main

        code = main()
    except KeyboardInterrupt:  # while the program was still being read
        code = 130
    sys.exit(code)
