"""Tables and figures from paceline's result files: python3 -m analysis --help."""
