from utils.course.cli import main

main()
