import { meaningOf } from '../../core/console/close.ts'
import { CtlError } from '../ctl-error.ts'
import { exitStatus, shellStatus } from '../exit-status.ts'
import type { CloseCode, ConsoleClose } from '../../core/console/close.ts'
import type { ExitStatus } from '../exit-status.ts'

/** A good end of a console. */
export type Ending = { readonly status: ExitStatus; readonly words: string }

/** Cannot happen while client and daemon have the same version. */
const misunderstood = (): string[] => [
  'this is a bug if vmhostctl version and vmhostctl sync show the same version',
]

/** Advice after the failures that need it, by the name of the VM. */
const advice: { readonly [code in CloseCode]?: (vm: string) => string[] } = {
  protocol_error: misunderstood,
  not_utf8: misunderstood,
  message_too_big: misunderstood,
  daemon_stops: () => ['connect again in a moment; with --ssh this starts a new shell'],
  ssh_no_address: (vm) => [`vmhostctl console ${vm} needs no address`],
  ssh_no_route: (vm) => [
    `vmhostctl vm get ${vm} shows whether it runs`,
    `vmhostctl console ${vm} needs no network`,
  ],
  ssh_refused: (vm) => [`does the guest run sshd? vmhostctl console ${vm} works without it`],
  ssh_timed_out: (vm) => [
    'if the guest is still booting, run the command again in a moment',
    `vmhostctl console ${vm} shows how far it is`,
  ],
  ssh_key_refused: () => ['is --user right? vmhostctl sync shows the key that the guest must accept'],
  internal: () => ['the log of the host has the details: journalctl --unit=vmhostd'],
}

/** Codes of ends that come from the life of the VM, and are no failure of its console. */
const GOOD_ENDS: ReadonlySet<string> = new Set(['vm_stopped', 'vm_deleted', 'vm_moved'] satisfies CloseCode[])

/** Returns the end for a close that is not a failure. Throws CtlError for a failure. */
export function endingOf(close: ConsoleClose, vm: string): Ending {
  const { status, code, words } = close
  const said = [happened(close, vm), words].filter((part) => part !== '').join(': ')
  if (GOOD_ENDS.has(code)) return { status: exitStatus.done, words: said }
  const [, digits] = /^exit status (\d+)$/.exec(words) ?? []
  if (code === 'shell_ended' && digits !== undefined)
    return { status: shellStatus(Number(digits)), words: '' }
  const isAway = code === 'daemon_stops' || (code === '' && status === 1006)
  throw new CtlError(said, {
    code: code === '' ? 'console_closed' : code,
    status: isAway ? exitStatus.unreachable : exitStatus.failed,
    advice: advice[code as CloseCode]?.(vm) ?? [],
  })
}

/** Says what happened to a console, with the name of its VM. */
function happened(close: ConsoleClose, vm: string): string {
  const { status, code } = close
  const title = meaningOf(close)?.title
  if (title?.startsWith('The VM ')) return title.replace('The VM', vm)
  if (title !== undefined) return `${vm}: ${title.charAt(0).toLowerCase()}${title.slice(1)}`
  if (status === 1006) return `the connection broke, and the shell in ${vm} ended with it`
  return `the daemon closed the console of ${vm} with status ${status}${code === '' ? '' : `, ${code}`}`
}
