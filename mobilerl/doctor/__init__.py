"""What of this machine a recipe needs: small checks, each of which ends within seconds and asks nobody far away."""
