module gpumpi/tools/pause

go 1.24.0
