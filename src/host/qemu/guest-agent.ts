import { Socket } from 'node:net'
import { addAbortSignal } from 'node:stream'
import { hasErrno } from '../ffi/errno-error.ts'
import { AgentAnswers } from './agent-answers.ts'
import { connectToMonitor, ForeignSocket } from './monitor-socket.ts'
import type { AgentLine } from './agent-answers.ts'

/** A command of QEMU's guest agent (QEMU, docs/interop/qemu-ga-ref), with its arguments as JSON. */
export type AgentCommand = { readonly name: string; readonly args?: string }

/**
 * The outcome of a command.
 *
 * - `absent`: no process listens on the socket, so there is no such guest;
 * - `foreign`: a process other than the VM's monitor listens on the socket, so nothing was sent;
 * - `silent`: no agent answers, or it sends more than an honest one does, so the command was never sent;
 * - `unsupported`: the agent does not have this command, or is configured to refuse it;
 * - `unknown`: the command was sent and not answered; the agent may still run it later.
 */
export type AgentAnswer =
  | AgentLine
  | { readonly kind: 'absent' | 'silent' | 'unknown' }
  | { readonly kind: 'foreign'; readonly because: string }

/**
 * Sends one command to the agent in a guest. It never fails, because most guests have no agent. The command is sent
 * only to an agent that has just answered guest-sync-delimited. Without a listener it would wait in the device, and run
 * at some later time. The socket takes one client at a time, so the second of two questions waits. A guest that floods
 * costs at most what {@link AgentAnswers} reads.
 *
 * @param command called when the command is sent
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
  // A byte that is not valid in JSON makes an agent drop what it had read before (see its section on
  // guest-sync-delimited).
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
    // The socket or the guest is gone, or the time is up.
  } finally {
    socket.destroy()
  }
  return { kind: isThere ? 'unknown' : 'silent' }
}

/** Connects, and returns the socket or the reason why there is none. */
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
