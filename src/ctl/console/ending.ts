import { CtlError } from '../ctl-error.ts'
import { exitStatus, shellStatus } from '../exit-status.ts'
import type { ConsoleClose } from '../../client/console-messages.ts'
import type { ExitStatus } from '../exit-status.ts'

/** A good end of a console. */
export type Ending = { readonly status: ExitStatus; readonly words: string }

type Failure = { readonly message: string; readonly advice?: readonly string[]; readonly status?: ExitStatus }

/** Cannot happen while client and daemon have the same version. */
const misunderstood = (vm: string): Failure => ({
  message: `a bug: the daemon did not understand what this program sent to the console of ${vm}`,
  advice: ['are both of the same version? vmhostctl version, vmhostctl sync'],
})

/** The failure that each close code stands for, by the name of the VM. */
const FAILURES: Readonly<Record<string, (vm: string) => Failure>> = {
  protocol_error: misunderstood,
  not_utf8: misunderstood,
  message_too_big: misunderstood,
  too_many_messages: (vm) => ({ message: `the daemon closed the console of ${vm}: input came too fast` }),
  viewer_behind: (vm) => ({ message: `the shell in ${vm} wrote faster than this terminal takes it` }),
  daemon_stops: (vm) => ({
    message: `the daemon stops, and the shell in ${vm} with it`,
    advice: ['the VM goes on; the same again in a moment'],
    status: exitStatus.unreachable,
  }),
  ssh_no_address: (vm) => ({
    message: `${vm} has no address to connect to`,
    advice: [`vmhostctl console ${vm} needs none`],
  }),
  ssh_no_route: (vm) => ({
    message: `the host has no way to ${vm}`,
    advice: [`vmhostctl vm get ${vm} shows whether it runs`, `vmhostctl console ${vm} needs no network`],
  }),
  ssh_refused: (vm) => ({
    message: `nothing listens on the SSH port of ${vm}`,
    advice: [`does the guest run sshd? vmhostctl console ${vm} needs none`],
  }),
  ssh_timed_out: (vm) => ({
    message: `${vm} did not answer in time`,
    advice: [
      'a guest that still boots: the same again in a moment',
      `vmhostctl console ${vm} shows how far it is`,
    ],
  }),
  ssh_key_refused: (vm) => ({
    message: `${vm} does not accept the daemon's key for this user`,
    advice: ['is --user right? vmhostctl sync shows the key that the guest must accept'],
  }),
  ssh_shell_refused: (vm) => ({ message: `${vm} gives this user no shell` }),
  ssh_failed: (vm) => ({ message: `the SSH connection to ${vm} failed` }),
  ssh_lost: (vm) => ({ message: `the SSH connection to ${vm} broke` }),
  internal: () => ({
    message: 'a bug of vmhostd ended the console',
    advice: ['the log of the host has it: journalctl --unit=vmhostd'],
  }),
}

/** Returns the end for a close that is not a failure. Throws CtlError for a failure. */
export function endingOf(close: ConsoleClose, vm: string): Ending {
  const { code, words } = close
  if (code === 'vm_stopped') {
    const after = words === '' ? 'has stopped, and its console with it' : `has stopped: ${words}`
    return { status: exitStatus.done, words: `${vm} ${after}` }
  }
  if (code === 'vm_deleted') return { status: exitStatus.done, words: `${vm} is gone` }
  if (code === 'shell_ended') {
    const [, digits] = /^exit status (\d+)$/.exec(words) ?? []
    if (digits !== undefined) return { status: shellStatus(Number(digits)), words: '' }
    throw failed(close, { message: `the shell in ${vm} ended` })
  }
  throw failed(close, FAILURES[code]?.(vm) ?? unknownEnd(close, vm))
}

const failed = ({ code, words }: ConsoleClose, { message, advice = [], status }: Failure): CtlError =>
  new CtlError(words === '' ? message : `${message}: ${words}`, {
    code: code === '' ? 'console_closed' : code,
    status: status ?? exitStatus.failed,
    advice,
  })

function unknownEnd({ status, code }: ConsoleClose, vm: string): Failure {
  if (status === 1006) {
    return {
      message: `the connection broke, and the shell in ${vm} ended with it`,
      status: exitStatus.unreachable,
    }
  }
  return {
    message: `the daemon closed the console of ${vm} with status ${status}${code === '' ? '' : `, ${code}`}`,
  }
}
