/**
 * Prints the scripts for the shells. Their candidates come from `vmhostctl __complete`, so they always fit the program.
 */
import { exitStatus } from '../exit-status.ts'
import type { Command } from '../command.ts'

/** See bash(1), "Programmable Completion". */
const BASH = `# bash completion for vmhostctl; to have it in this shell: source <(vmhostctl completion bash)
_vmhostctl() {
  local current=\${COMP_WORDS[COMP_CWORD]} line
  [[ $current == = ]] && current=
  COMPREPLY=()
  while IFS= read -r line; do
    if [[ $line == :files ]]; then
      compopt -o filenames 2>/dev/null
      while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen -f -- "$current")
    else
      COMPREPLY+=("\${line%%$'\\t'*}")
    fi
  done < <(vmhostctl __complete "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _vmhostctl vmhostctl
`

/** See zshcompsys(1). */
const ZSH = `#compdef vmhostctl
# zsh completion for vmhostctl; to have it in this shell: source <(vmhostctl completion zsh)
_vmhostctl() {
  local line
  local -a described
  for line in "\${(@f)$(vmhostctl __complete "\${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
    [[ -z $line ]] && continue
    if [[ $line == :files ]]; then
      _files
      return
    fi
    line=\${line//:/\\\\:}
    described+=("\${line/$'\\t'/:}")
  done
  _describe -t values 'vmhostctl' described
}
if [ "$funcstack[1]" = _vmhostctl ]; then
  _vmhostctl "$@"
else
  compdef _vmhostctl vmhostctl
fi
`

/** See fish's complete(1). */
const FISH = `# fish completion for vmhostctl; to have it in this shell: vmhostctl completion fish | source
function __vmhostctl_candidates
  set -l words (commandline -opc)
  set -l current (commandline -ct)
  for line in (vmhostctl __complete $words[2..] "$current" 2>/dev/null)
    if test "$line" = :files
      __fish_complete_path "$current"
    else
      echo $line
    end
  end
end
complete -c vmhostctl -f -a '(__vmhostctl_candidates)'
`

const SCRIPTS = { bash: BASH, zsh: ZSH, fish: FISH } as const

type CompletionShell = keyof typeof SCRIPTS

const SHELLS = Object.keys(SCRIPTS) as CompletionShell[]

export const completionCommand: Command = {
  words: ['completion'],
  summary: 'print the completion script of a shell: bash, zsh or fish',
  description:
    'Completes commands, options, values and names. For the names it asks the daemon. The Debian package installs all ' +
    'three scripts.',
  operand: { placeholder: 'SHELL', completes: SHELLS },
  options: [],
  examples: [
    ['bash >/etc/bash_completion.d/vmhostctl', 'for every new bash'],
    ['fish | source', 'for this shell'],
  ],
  run: async ({ given, print }) => {
    // The command line takes no other.
    const name = given.operand as CompletionShell
    print({ shell: name, script: SCRIPTS[name] }, () => SCRIPTS[name])
    return exitStatus.done
  },
}
