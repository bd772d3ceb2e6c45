import { usageError } from '../ctl-error.ts'
import { attach } from './attach.ts'
import type { ConsoleRequest } from '../../client/console/console-connection.ts'
import type { Arguments, Command } from '../command.ts'

const FOLLOW = 'follow'
const USER = 'user'
const ACCEPT_HOST_KEY = 'accept-host-key'

export const consoleCommand: Command = {
  words: ['console'],
  summary: 'attach this terminal to the serial console of a VM, or to a shell in it',
  description:
    'Shows the latest output of the guest and what it writes now. What you type goes to the guest, including Ctrl-C. ~. at ' +
    'the start of a line leaves the console; the VM keeps running. Others may watch and type at the same time. When the ' +
    'daemon restarts or the connection breaks, the console connects again, and no output is lost. If standard input is not ' +
    'a terminal, it is sent as it is, and output continues after its end until the VM stops. With --ssh you get a login ' +
    'shell of your own, which the daemon opens with its key. It ends with its connection, and its exit status becomes that ' +
    'of this program.',
  operand: { placeholder: 'VM', completes: 'vm' },
  options: [
    { name: 'ssh', help: 'a shell over SSH instead of the serial console; a sleeping VM is woken by it' },
    { name: USER, value: 'NAME', help: 'with --ssh: who to log in as (root)', needs: 'ssh' },
    {
      name: ACCEPT_HOST_KEY,
      value: 'FINGERPRINT',
      help: 'with --ssh: accept this host key of the guest from now on, if it has changed',
      check: checkFingerprint,
      needs: 'ssh',
    },
    {
      name: FOLLOW,
      help: 'wait for the start of a VM that does not run, and for the next one when it stops',
    },
  ],
  examples: [
    ['web-1', 'watch and type; ~. leaves'],
    ['web-1 --follow </dev/null >>web-1.log', 'log everything it writes, across all its starts'],
    ['web-1 --ssh --user admin', 'a shell in the guest'],
  ],
  endsWithReader: true,
  run: async (context) => attach(context, requestOf(context.given)),
}

function requestOf(given: Arguments): ConsoleRequest {
  const vm = given.operand
  if (!given.isSet('ssh')) return { vm, mode: 'tty', follow: given.isSet(FOLLOW) }
  if (given.isSet(FOLLOW)) throw usageError('a shell cannot --follow a VM', 'leave out --ssh or --follow')
  return { vm, mode: 'ssh', user: given.text(USER), acceptHostKey: given.text(ACCEPT_HOST_KEY) }
}

/** Checks the form that OpenSSH prints: SHA-256 in base64 without padding. */
function checkFingerprint(text: string, what: string): void {
  if (!/^SHA256:[A-Za-z0-9+/]{43}$/.test(text))
    throw usageError(
      `${what} ${text} is not a fingerprint`,
      'it is SHA256: and 43 characters; the refusal names it',
    )
}
