from calque.cli import main

main()
