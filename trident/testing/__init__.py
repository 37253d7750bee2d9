"""What a pipeline's author tests with: list sources, crash points, a clock to move, engines without a JVM."""
