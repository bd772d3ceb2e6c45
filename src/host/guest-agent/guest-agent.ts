import { on } from 'node:events'
import { Socket } from 'node:net'
import { addAbortSignal } from 'node:stream'
import { limits } from '../../config/limits.ts'
import { hasErrno } from '../ffi/errno-error.ts'
import { connectToMonitor, ForeignSocket } from '../monitors/monitor-socket.ts'

/** An agent's answer to a command. Anything that is not a value is a refusal. */
type AgentLine =
  | { readonly kind: 'returned'; readonly value: unknown }
  | { readonly kind: 'unsupported' | 'refused' }

/** `excess`: the agent sent more than an honest one does, so nothing more is read from it. */
export type AgentReading = 'more' | 'synced' | 'excess' | AgentLine

/**
 * The byte that an agent puts before its answer to guest-sync-delimited (QEMU, docs/interop/qemu-ga-ref). JSON never
 * contains it.
 */
const SENTINEL = 0xff
const NEWLINE = 0x0a

/**
 * Reads an agent's answers to one question. The guest decides what it sends, so the work is bounded. Until the agent
 * has answered `guest-sync-delimited`, only lines that begin with its sentinel are parsed. The bytes, the lines and
 * their lengths are limited.
 */
export class AgentAnswers {
  readonly #syncId: number
  #rest: Buffer = Buffer.alloc(0)
  #isSynced = false
  /** How many bytes were read. */
  bytes = 0
  /** How many lines were parsed. */
  lines = 0

  /** @param syncId the value that the agent returns to our guest-sync-delimited */
  constructor(syncId: number) {
    this.#syncId = syncId
  }

  /**
   * Takes the next bytes. After `synced` the command may be sent; bytes that came with that answer are kept for {@link
   * next}.
   */
  take(chunk: Buffer): AgentReading {
    this.bytes += chunk.length
    if (this.bytes > limits.guestAgentBytesMax) return 'excess'
    this.#rest = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk])
    return this.next()
  }

  /** Reads the next answer from bytes that were taken before. */
  next(): AgentReading {
    for (;;) {
      if (!this.#isSynced) this.#skipToSentinel()
      const end = this.#rest.indexOf(NEWLINE)
      const length = end === -1 ? this.#rest.length : end
      if (length > limits.guestAgentLineBytesMax) return 'excess'
      if (end === -1) return 'more'
      const answer = lineOf(this.#rest.subarray(0, end))
      this.#rest = this.#rest.subarray(end + 1)
      if (this.#isSynced) return answer
      this.#isSynced = answer.kind === 'returned' && answer.value === this.#syncId
      if (this.#isSynced) return 'synced'
      this.lines += 1
      if (this.lines >= limits.guestAgentLinesMax) return 'excess'
    }
  }

  /** Drops bytes before the sentinel, which answer an earlier question, or none. */
  #skipToSentinel(): void {
    const at = this.#rest.indexOf(SENTINEL)
    this.#rest = at === -1 ? Buffer.alloc(0) : this.#rest.subarray(at)
  }
}

type AgentMessage = { readonly return?: unknown; readonly error?: { readonly class?: unknown } } | null

function lineOf(line: Buffer): AgentLine {
  try {
    const said = JSON.parse(line.toString('latin1', line.lastIndexOf(SENTINEL) + 1)) as AgentMessage
    if (said?.return !== undefined) return { kind: 'returned', value: said.return }
    return { kind: said?.error?.class === 'CommandNotFound' ? 'unsupported' : 'refused' }
  } catch {
    return { kind: 'refused' }
  }
}

/** The way to the agent in a guest. */
export type AgentAddress = {
  readonly path: string
  /** The port of vsock on which the agent listens, if the socket leads to all of them (Firecracker, docs/vsock.md). */
  readonly vsockPort?: number
}

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
  address: AgentAddress,
  command: () => AgentCommand,
  signal: AbortSignal,
): Promise<AgentAnswer> {
  const socket = dialled(address.path)
  if (!(socket instanceof Socket)) return socket
  addAbortSignal(signal, socket)
  if (!(await isConnected(socket, address))) return { kind: 'silent' }
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

/**
 * Asks for the agent's port, and resolves to whether the agent took the connection: then the answer is a line
 * `OK PORT`. Otherwise the connection ends.
 */
async function isConnected(socket: Socket, { vsockPort }: AgentAddress): Promise<boolean> {
  if (vsockPort === undefined) return true
  socket.write(`CONNECT ${vsockPort}\n`)
  try {
    for await (const [chunk] of on(socket, 'data', { close: ['close', 'end'] }) as AsyncIterable<[Buffer]>) {
      const end = chunk.indexOf(NEWLINE)
      // The line comes at once: Firecracker writes it whole to a new connection.
      if (end === -1 || !chunk.toString('latin1').startsWith('OK ')) break
      socket.pause()
      if (end + 1 < chunk.length) socket.unshift(chunk.subarray(end + 1))
      return true
    }
  } catch {
    // The socket or the guest is gone, or the time is up.
  }
  socket.destroy()
  return false
}

/**
 * Whether an agent in the guest takes a connection now. Throws if no process listens on the socket. A guest that does
 * not run takes none.
 */
export async function listensOnVsock(address: AgentAddress): Promise<boolean> {
  const socket = connectToMonitor(address.path)
  addAbortSignal(AbortSignal.timeout(limits.vsockConnectMs), socket)
  try {
    return await isConnected(socket, address)
  } finally {
    socket.destroy()
  }
}

const requestOf = ({ name, args }: AgentCommand): string =>
  `{"execute":"${name}"${args === undefined ? '' : `,"arguments":${args}`}}\n`
