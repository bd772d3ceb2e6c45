import { limits } from '../../config/limits.ts'
import { assert } from '../../lib/assert.ts'
import { bytesBehindKeyExchange, inWords } from './ssh2.ts'
import { Listeners } from '../../lib/listeners.ts'
import type { Socket } from 'node:net'
import type { Client, ClientChannel, SshError } from './ssh2.ts'
import type { WindowSize } from '../../core/console/console-viewer.ts'
import type { GuestShell, ShellEnd } from '../../ports/guest-shells.ts'

type ShellListeners = Parameters<GuestShell['attach']>[0]

/** A shell on a channel of its own connection, which ends with it. */
export class SshShell implements GuestShell {
  readonly #client: Client
  readonly #socket: Socket
  readonly #channel: ClientChannel
  readonly #onInputRoom = new Listeners()
  /** The streams of output that have not ended, and the channel itself. */
  readonly #open = new Set(['output', 'error output', 'channel'])
  #listeners: ShellListeners | undefined
  #status: ShellEnd | undefined
  #lostBecause: string | undefined
  /** The newest size, while it waits for the end of a key exchange. */
  #sizeWaiting: WindowSize | undefined
  #isFull = false
  #isOver = false

  constructor(client: Client, socket: Socket, channel: ClientChannel) {
    this.#client = client
    this.#socket = socket
    this.#channel = channel
    client.on('error', (error: SshError) => {
      this.#lostBecause ??= error.level === 'client-timeout' ? 'the guest no longer answers' : inWords(error)
      // ssh2 only ends its side, and the guest may never end its own.
      hangUp(client, socket)
    })
    client.on('close', () => {
      this.#lostBecause ??= 'the guest closed the connection'
    })
    socket.on('drain', () => this.#noteInputRoom())
    // The end of a key exchange.
    client.on('handshake', () => {
      this.#sendSize()
      this.#noteInputRoom()
    })
    channel.on('exit', (status: number | null, signal?: string) => {
      this.#status = status === null ? killedBy(signal ?? '') : { kind: 'exited', status }
    })
    channel.on('end', () => this.#noteEnd('output'))
    channel.stderr.on('end', () => this.#noteEnd('error output'))
    channel.on('close', () => this.#noteEnd('channel'))
  }

  /** How many bytes of output were read from the guest and not passed on yet. */
  get keptBytes(): number {
    return this.#channel.readableLength + this.#channel.stderr.readableLength
  }

  attach(listeners: ShellListeners): void {
    assert(this.#listeners === undefined, 'a shell is attached to once')
    this.#listeners = listeners
    const onOutput = (bytes: Buffer): void => {
      if (!this.#isOver) listeners.onOutput(bytes)
    }
    this.#channel.on('data', onOutput)
    this.#channel.stderr.on('data', onOutput)
  }

  write(bytes: Uint8Array): void {
    if (this.#isOver || !this.#channel.writable) return
    this.#channel.write(bytes, () => this.#noteInputRoom())
    this.#isFull ||= this.inputWaiting >= limits.consoleInputBytesMax
  }

  get inputWaiting(): number {
    const { writableLength } = this.#channel
    return writableLength + bytesBehindKeyExchange(this.#client) + this.#socket.writableLength
  }

  onInputRoom(listener: () => void): void {
    this.#onInputRoom.add(listener)
  }

  resize({ cols, rows }: WindowSize): void {
    if (this.#isOver) return
    // During a key exchange, which a guest may leave unfinished, each size would wait in a packet of its own.
    if (bytesBehindKeyExchange(this.#client) > 0) this.#sizeWaiting = { cols, rows }
    // The sizes in pixels are unknown: 0 (RFC 4254, section 6.2).
    else this.#channel.setWindow(rows, cols, 0, 0)
  }

  #sendSize(): void {
    const size = this.#sizeWaiting
    this.#sizeWaiting = undefined
    if (size !== undefined) this.resize(size)
  }

  pause(): void {
    this.#channel.pause()
    this.#channel.stderr.pause()
  }

  resume(): void {
    if (this.#listeners === undefined) return
    this.#channel.resume()
    this.#channel.stderr.resume()
  }

  close(): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#hangUp()
  }

  /** Ends the connection at once; `onEnd` gets the reason. */
  cutOff(because: string): void {
    this.#lostBecause ??= because
    this.#socket.destroy()
  }

  #noteInputRoom(): void {
    if (!this.#isFull || this.inputWaiting >= limits.consoleInputBytesMax) return
    this.#isFull = false
    if (this.#isOver) return
    this.#onInputRoom.notify()
  }

  #noteEnd(what: string): void {
    this.#open.delete(what)
    if (this.#open.size > 0 || this.#isOver) return
    this.#isOver = true
    const because = this.#lostBecause ?? 'the guest ended the shell without a status'
    this.#hangUp()
    this.#listeners?.onEnd(this.#status ?? { kind: 'lost', because })
  }

  #hangUp(): void {
    hangUp(this.#client, this.#socket)
    // The rest of the output is discarded. A stream that is not read would never end.
    this.#channel.resume()
    this.#channel.stderr.resume()
  }
}

/** Describes a shell that was killed. The name of the signal comes from the guest, so it is checked. */
export const killedBy = (signal: string): ShellEnd => ({
  kind: 'killed',
  signal: /^SIG[A-Z0-9]{1,16}$/.test(signal) ? signal : 'SIG?',
})

/** Notifies the guest that the connection ends, and closes the socket a moment later at the latest. */
export function hangUp(client: Client, socket: Socket): void {
  client.end()
  if (socket.destroyed) return
  const late = setTimeout(() => socket.destroy(), limits.consoleCloseMs)
  socket.on('close', () => clearTimeout(late))
}
