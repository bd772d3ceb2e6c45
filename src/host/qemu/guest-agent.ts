import { connect } from 'node:net'
import { limits } from '../../config/limits.ts'

/** A command of QEMU's guest agent (QEMU, docs/interop/qemu-ga-ref), with its arguments as JSON. */
export type AgentCommand = { readonly name: string; readonly args?: string }

/**
 * What came of a command.
 *
 * - `absent`: nobody has the socket, so there is no such guest;
 * - `silent`: nobody in the guest answers, so the command was never sent;
 * - `unsupported`: the agent has no such command, or was told not to do it;
 * - `unknown`: it was sent, and nobody knows how it went: it may still be done later.
 */
export type AgentAnswer =
  | { readonly kind: 'returned'; readonly value: unknown }
  | { readonly kind: 'absent' | 'silent' | 'unsupported' | 'refused' | 'unknown' }

/**
 * Asks the agent in a guest one thing. It never fails: most guests have no agent. The command is sent only to an agent that has
 * just answered (guest-sync-delimited): what is sent where nobody listens waits in the device, and would be done one day.
 * The socket takes one client at a time, so that of two who ask the second waits.
 *
 * @param command asked for when it is sent
 */
export async function askAgent(
  path: string,
  command: () => AgentCommand,
  signal: AbortSignal,
): Promise<AgentAnswer> {
  const socket = connect({ path, signal })
  const id = Math.trunc(performance.now() * 1000)
  // A byte that is in no JSON makes an agent forget what it had read before (its section on guest-sync-delimited).
  const sync = requestOf({ name: 'guest-sync-delimited', args: `{"id":${id}}` })
  socket.write(Buffer.from(`\xff${sync}`, 'latin1'))
  let isThere = false
  let text = ''
  try {
    for await (const chunk of socket) {
      text += (chunk as Buffer).toString('latin1')
      if (text.length > limits.guestAgentBytesMax) break
      const lines = text.split('\n')
      text = lines.pop() ?? ''
      for (const line of lines) {
        const answer = answerIn(line)
        if (isThere) return answer
        const value = answer.kind === 'returned' ? answer.value : undefined
        // What it answers to others' questions, or to one of before, comes first.
        if (value !== id) continue
        isThere = true
        socket.write(requestOf(command()))
      }
    }
  } catch (error) {
    if (!isThere && NOBODY.has((error as NodeJS.ErrnoException).code ?? '')) return { kind: 'absent' }
    // The socket or the guest is gone, or time is up.
  } finally {
    socket.destroy()
  }
  return { kind: isThere ? 'unknown' : 'silent' }
}

/** unix(7), connect(2). */
const NOBODY: ReadonlySet<string> = new Set(['ENOENT', 'ECONNREFUSED'])

const requestOf = ({ name, args }: AgentCommand): string =>
  `{"execute":"${name}"${args === undefined ? '' : `,"arguments":${args}`}}\n`

type AgentLine = { readonly return?: unknown; readonly error?: { readonly class?: unknown } } | null

/** What an agent said; whatever is no value is a refusal. */
function answerIn(line: string): AgentAnswer {
  try {
    const said = JSON.parse(line.replaceAll('\xff', '')) as AgentLine
    if (said?.return !== undefined) return { kind: 'returned', value: said.return }
    return { kind: said?.error?.class === 'CommandNotFound' ? 'unsupported' : 'refused' }
  } catch {
    return { kind: 'refused' }
  }
}
