from unlazy.cli import main

main()
