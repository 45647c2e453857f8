"""What a run will do: the plan, the manifest it becomes, and shrinking a failing plan."""
