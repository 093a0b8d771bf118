"""One-line shell commands asked for in words."""

import words
from exchange import check_command, simple

# (ways to ask, command, other accepted commands); {f} {g} files, {d} {e} directories, {w} {v} words, {k} a number,
# {x} an extension
COMMANDS = [
    ("[[counts|count] the lines|[counts|count|shows|show|prints|print] [the number of lines|how many lines there are|how many lines are]] [of|in] {f}", "wc -l {f}", ("wc -l < {f}", "cat {f} | wc -l")),
    ("[[counts|count] the words|[counts|count|shows|show|prints|print] [the number of words|how many words there are|how many words are]] [of|in] {f}", "wc -w {f}", ("wc -w < {f}",)),
    ("[counts|count] the bytes [of|in] {f}", "wc -c {f}", ("wc -c < {f}",)),
    ("[shows|show|prints|print] the first {k} lines of {f}", "head -n {k} {f}", ("head -{k} {f}",)),
    ("[shows|show|prints|print] the last {k} lines of {f}", "tail -n {k} {f}", ("tail -{k} {f}",)),
    ("[shows|show|prints|print|displays|display] [the content of |what is in |]{f}", "cat {f}", ()),
    ("[shows|show|prints|print] {f} with line numbers", "cat -n {f}", ("nl {f}",)),
    ("[follows|follow] the end of {f}", "tail -f {f}", ()),
    ("[finds|find|shows|show|prints|print] [the lines with {w} in {f}|the lines of {f} that hold {w}|where {w} is in {f}]", "grep {w} {f}", ("grep '{w}' {f}", 'grep "{w}" {f}')),
    ("[counts|count] the lines with {w} in {f}", "grep -c {w} {f}", ("grep {w} {f} | wc -l",)),
    ("[searches|search] for {w} in all files [of|under|in] {d}", "grep -r {w} {d}", ("grep -rn {w} {d}", "grep -r '{w}' {d}")),
    ("[shows|show] the lines without {w} in {f}", "grep -v {w} {f}", ()),
    ("[searches|search] {f} for {w}, ignoring case", "grep -i {w} {f}", ()),
    ("[lists|list|shows|show] [the|all] files [of|in|inside] {d}", "ls {d}", ("ls {d}/",)),
    ("[lists|list] all files [of|in] {d}, [hidden ones too|also hidden ones]", "ls -a {d}", ("ls -A {d}",)),
    ("[lists|list] the files [of|in] {d} with details", "ls -l {d}", ("ls -la {d}",)),
    ("[lists|list] the .{x} files [of|in] {d}", "ls {d}/*.{x}", ()),
    ("[finds|find] all .{x} files [under|in|below] {d}", 'find {d} -name "*.{x}"', ("find {d} -name '*.{x}'",)),
    ("[finds|find] the file {f} [under|in|below] {d}", "find {d} -name {f}", ('find {d} -name "{f}"',)),
    ("[finds|find] [the |all |]directories [under|in|below] {d}", "find {d} -type d", ()),
    ("[copies|copy] {f} to {g}", "cp {f} {g}", ()),
    ("[copies|copy] the [directory|folder] {d} to {e}", "cp -r {d} {e}", ()),
    ("[copies|copy] {f} into [the directory |]{d}", "cp {f} {d}/", ("cp {f} {d}",)),
    ("[moves|move] {f} into [the directory |]{d}", "mv {f} {d}/", ("mv {f} {d}",)),
    ("[renames|rename] {f} to {g}", "mv {f} {g}", ()),
    ("[deletes|delete|removes|remove] [the file |]{f}", "rm {f}", ()),
    ("[deletes|delete|removes|remove] the [directory|folder] {d}[ and all in it|]", "rm -r {d}", ("rm -rf {d}",)),
    ("[makes|make|creates|create|adds|add] [the|a|a new] [directory|folder] [|named |called ]{d}", "mkdir {d}", ("mkdir -p {d}",)),
    ("[makes|make|creates|create] [the|an|a new] empty file [|named |called ]{f}", "touch {f}", ()),
    ("[sorts|sort] the lines of {f}", "sort {f}", ()),
    ("[sorts|sort] {f} in reverse[ order|]", "sort -r {f}", ()),
    ("[sorts|sort] {f} [by number|numerically]", "sort -n {f}", ()),
    ("[shows|show|prints|print] the [unique|distinct] lines of {f}", "sort -u {f}", ("sort {f} | uniq",)),
    ("[replaces|replace] {w} by {v} in {f}", "sed -i 's/{w}/{v}/g' {f}", ("sed -i s/{w}/{v}/g {f}", 'sed -i "s/{w}/{v}/g" {f}')),
    ("[shows|show|prints|print] column {k} of {f}[, split at commas|, a comma-separated file]", "cut -d, -f{k} {f}",
     ("cut -d ',' -f {k} {f}", "cut -d, -f {k} {f}")),
    ("[shows|show|prints|print] the size of [the directory |]{d}", "du -sh {d}", ("du -s {d}",)),
    ("[shows|show|prints|print] the free disk space", "df -h", ("df",)),
    ("[shows|show|prints|print] the [current|working] directory", "pwd", ()),
    ("[goes|go|changes|change] to [the directory |]{d}", "cd {d}", ()),
    ("[makes|make] {f} executable", "chmod +x {f}", ()),
    ("[packs|pack|compresses|compress] {d} [into|as] {w}.tar.gz", "tar -czf {w}.tar.gz {d}", ("tar czf {w}.tar.gz {d}",)),
    ("[unpacks|unpack|extracts|extract] {w}.tar.gz", "tar -xzf {w}.tar.gz", ("tar xzf {w}.tar.gz", "tar -xf {w}.tar.gz")),
    ("[links|link] {f} as {g}", "ln -s {f} {g}", ()),
    ("[compares|compare] {f} and {g}", "diff {f} {g}", ()),
    ("[runs|run] the Python script {w}.py", "python3 {w}.py", ("python {w}.py",)),
    ("[prints|print|shows|show] the word {w}", "echo {w}", ("echo '{w}'", 'echo "{w}"')),
    ("[writes|write] {w} [to|into] {f}", "echo {w} > {f}", ("echo '{w}' > {f}", 'echo "{w}" > {f}')),
    ("[appends|append|adds|add] {w} to [the end of |]{f}", "echo {w} >> {f}", ("echo '{w}' >> {f}", 'echo "{w}" >> {f}')),
    ("[shows|show|prints|print] the date", "date", ()),
    ("[creates|create|makes|make] [the|a] git branch {w}", "git checkout -b {w}", ("git branch {w}", "git switch -c {w}")),
    ("[stages|stage|adds|add] {f} to git", "git add {f}", ()),
    ("[commits|commit] with the message {w}", 'git commit -m "{w}"', ("git commit -m '{w}'", "git commit -m {w}")),
    ("[shows|show] the git status", "git status", ()),
]


def make(source):
    said, command, others = source.pick(COMMANDS)
    values = dict(f=words.file_name(source), g=words.file_name(source), d=words.directory(source), e=words.directory(source),
                  w=words.term(source), v=words.term(source), x=source.pick(words.EXTENSIONS),
                  k=source.integer(2, 50))
    if "column" in said:
        values["k"] = source.integer(1, 9)

    def fill(template):
        for key, value in values.items():
            template = template.replace("{" + key + "}", str(value))
        return template
    said = source.spin(fill(said))
    command = fill(command)
    verb = said.split()[0]
    if verb.endswith("s"):
        question = source.spin("[[Give me|Write|Show me|I need|What is|What's|Which is|Tell me|I want|Name] [a|the] [shell |bash |Linux |terminal |]"
                               "[command|line] [that|which] {s}[.|?|]|Which [shell |bash |]command {s}?|What command {s}?|A command that {s}[, please|].]",
                               s=said)
    else:
        question = source.spin("[[How do I|How can I|How to|How would I|How do you|How does one] {s}[ in the shell| in bash| in the terminal| on Linux|][?|]|"
                               "[Shell|Bash|Command|Terminal]: {s}|[Write|Give me|I need|Show me|What is|What's|Tell me] [a|the] [shell|bash|terminal|Linux] "
                               "[command|line] to {s}[.|?|]|I [want to|need to|must|have to] {s} [in the shell|with a command|in bash|in the terminal][.|]|"
                               "[Command|Shell command] to {s}[, please|?|]|{s} with [bash|a shell command][.|]]", s=said)
    return simple("code", "shell", question, f"The command is {command.split()[0]}.", f"```sh\n{command}\n```",
                  check_command(command, *map(fill, others)), direct=True)
