"""`make live`: what the live cases cost at most, a question, and then the cases."""

import subprocess
import sys

from tests.live.cases import CASES

if __name__ == "__main__":
    for case in CASES:
        subprocess.run([sys.executable, "-P", "-m", "launcher", "quote", str(case.path)], check=False)
    jobs = [case for case in CASES if not case.serves]
    most = sum(int(case.most_usd) for case in jobs)
    print(f"\n{len(CASES)} cases in the account of your credentials: the {len(jobs)} jobs at most ${most} together,")
    print("the endpoint about an hour of its month. Each is removed at its end. docs/validated.md is written.")
    if not sys.stdin.isatty() or input("type yes to go on: ").strip() != "yes":
        sys.exit("nothing was done")
    words = [sys.executable, "-m", "pytest", "--live", "-m", "aws", "-v", "tests/live", *sys.argv[1:]]
    sys.exit(subprocess.run(words, check=False).returncode)
