import { Socket } from 'node:net'
import { addAbortSignal } from 'node:stream'
import { hasErrno } from '../ffi/errno-error.ts'
import { AgentAnswers } from './agent-answers.ts'
import { connectToMonitor, ForeignSocket } from './monitor-socket.ts'
import type { AgentLine } from './agent-answers.ts'

/** A command of QEMU's guest agent (QEMU, docs/interop/qemu-ga-ref), with its arguments as JSON. */
export type AgentCommand = { readonly name: string; readonly args?: string }

/**
 * What came of a command.
 *
 * - `absent`: nobody has the socket, so there is no such guest;
 * - `foreign`: the socket leads to another process than the VM's monitor, so nothing was sent;
 * - `silent`: no agent answers, or it says more than an honest one, so the command was never sent;
 * - `unsupported`: the agent has no such command, or was told not to do it;
 * - `unknown`: it was sent and not answered; the agent may still do it later.
 */
export type AgentAnswer =
  | AgentLine
  | { readonly kind: 'absent' | 'silent' | 'unknown' }
  | { readonly kind: 'foreign'; readonly because: string }

/**
 * Asks the agent in a guest one thing. It never fails: most guests have no agent. The command is sent only to an agent that has
 * just answered (guest-sync-delimited): without a listener it would wait in the device and be done one day. The socket takes
 * one client at a time, so the second of two questions waits. A guest that floods costs no more than {@link AgentAnswers} reads.
 *
 * @param command asked for when it is sent
 */
export async function askAgent(
  path: string,
  command: () => AgentCommand,
  signal: AbortSignal,
): Promise<AgentAnswer> {
  const socket = dialled(path)
  if (!(socket instanceof Socket)) return socket
  addAbortSignal(signal, socket)
  const id = Math.trunc(performance.now() * 1000)
  // A byte that is in no JSON makes an agent forget what it had read before (its section on guest-sync-delimited).
  const sync = requestOf({ name: 'guest-sync-delimited', args: `{"id":${id}}` })
  socket.write(Buffer.from(`\xff${sync}`, 'latin1'))
  const answers = new AgentAnswers(id)
  let isThere = false
  try {
    for await (const chunk of socket) {
      let reading = answers.take(chunk as Buffer)
      if (reading === 'synced') {
        isThere = true
        socket.write(requestOf(command()))
        reading = answers.next()
      }
      if (reading === 'excess') break
      if (typeof reading === 'object') return reading
    }
  } catch {
    // The socket or the guest is gone, or time is up.
  } finally {
    socket.destroy()
  }
  return { kind: isThere ? 'unknown' : 'silent' }
}

/** The socket, or why there is none. */
function dialled(path: string): Socket | AgentAnswer {
  try {
    return connectToMonitor(path)
  } catch (error) {
    if (error instanceof ForeignSocket) return { kind: 'foreign', because: error.message }
    // unix(7), connect(2).
    return { kind: hasErrno(error, 'ENOENT', 'ECONNREFUSED') ? 'absent' : 'silent' }
  }
}

const requestOf = ({ name, args }: AgentCommand): string =>
  `{"execute":"${name}"${args === undefined ? '' : `,"arguments":${args}`}}\n`
