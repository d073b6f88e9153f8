from mobilerl.cli import run

run()
