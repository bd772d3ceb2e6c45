import { existsSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { createServer as createSocketServer } from 'node:net'
import { dirname } from 'node:path'
import { text } from 'node:stream/consumers'
import { MIB } from '../../src/lib/byte-units.ts'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Server, Socket } from 'node:net'
import type { AgentRequest } from './scripted-agent.ts'

type Bucket = { readonly size: number; readonly refill_time: number }
type Limiter = { readonly bandwidth?: Bucket | null; readonly ops?: Bucket | null }
type Drive = { readonly drive_id: string; path_on_host: string; rate_limiter?: Limiter | null }

/** The parts of a saved guest. */
type Guest = {
  readonly memoryMib: number
  readonly life: number
  readonly drives: readonly Drive[]
  readonly agentPath: string
  isFrozen: boolean
}

type Config = {
  readonly 'machine-config': { readonly mem_size_mib: number }
  readonly drives: readonly Drive[]
  readonly vsock: { readonly uds_path: string }
}

type Body = {
  readonly state?: 'Paused' | 'Resumed'
  readonly path_on_host?: string
  readonly rate_limiter?: Limiter
  readonly snapshot_path?: string
  readonly mem_file_path?: string
  readonly mem_backend?: { readonly backend_path: string }
  readonly vsock_override?: { readonly uds_path: string }
}

/** An answer that is not 200 or 204, as Firecracker words it. */
class Refused extends Error {}

/** Length of a saved state's devices; long enough for a test to alter its middle. */
const STATE_BYTES = 4096
let lives = 0

/**
 * A process of Firecracker 1.16 as its API shows it: one guest in memory, with an agent on vsock. It keeps what is sent
 * over vsock from a guest that was resumed, until a save has announced that connections have ended.
 */
export class FakeFirecracker {
  /** Answers since its guest took it over, by question (`GET /`), instead of its own. */
  readonly lies = new Map<string, unknown>()
  readonly #apiPath: string
  #guest: Guest | undefined
  #isRunning = false
  #isVsockHeld = false
  readonly #servers: Server[] = []
  readonly #sockets = new Set<Socket>()

  private constructor(apiPath: string) {
    this.#apiPath = apiPath
  }

  /** Starts it, with its guest if there is a configuration. */
  static async start(apiPath: string, configPath?: string): Promise<FakeFirecracker> {
    const started = new FakeFirecracker(apiPath)
    await started.#listen(
      createServer((request, response) => void started.#serve(request, response)),
      apiPath,
    )
    if (configPath !== undefined) {
      const config = JSON.parse(readFileSync(configPath, 'utf8')) as Config
      await started.#take({
        memoryMib: config['machine-config'].mem_size_mib,
        life: ++lives,
        drives: config.drives,
        agentPath: config.vsock.uds_path,
        isFrozen: false,
      })
      started.#isRunning = true
    }
    return started
  }

  /** The number of the guest's life, which only a boot changes. */
  get life(): number {
    return this.#guest?.life ?? 0
  }

  get isFrozen(): boolean {
    return this.#guest?.isFrozen === true
  }

  /** The connections to it that are open. */
  get connections(): number {
    return this.#sockets.size
  }

  /** Writes to every connection without being asked, since its guest took it over. */
  speak(words: string): void {
    for (const socket of this.#sockets) socket.write(words)
  }

  /** Ends the process. */
  end(): void {
    for (const server of this.#servers) server.close()
    for (const socket of this.#sockets) socket.destroy()
    rmSync(this.#apiPath, { force: true })
    if (this.#guest !== undefined) rmSync(this.#guest.agentPath, { force: true })
  }

  async #take(guest: Guest): Promise<void> {
    this.#guest = guest
    for (const drive of guest.drives) statSync(drive.path_on_host)
    await this.#listen(
      createSocketServer((socket) => this.#talk(socket)),
      guest.agentPath,
    )
  }

  async #listen(server: Server, path: string): Promise<void> {
    server.on('connection', (socket: Socket) => {
      this.#sockets.add(socket)
      socket.on('close', () => this.#sockets.delete(socket))
      socket.on('error', () => {})
    })
    this.#servers.push(server)
    await once(server.listen(path), 'listening')
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const content = await text(request)
    try {
      const answer = await this.#answer(
        `${request.method} ${request.url}`,
        (content === '' ? {} : JSON.parse(content)) as Body,
      )
      if (answer === undefined) response.writeHead(204).end()
      else response.end(JSON.stringify(answer))
    } catch (error) {
      response.writeHead(400).end(JSON.stringify({ fault_message: String(error) }))
    }
  }

  #answer(asked: string, body: Body): unknown {
    if (this.lies.has(asked)) return this.lies.get(asked)
    switch (asked) {
      case 'GET /':
        return { state: this.#guest === undefined ? 'Not started' : this.#isRunning ? 'Running' : 'Paused' }
      case 'GET /version':
        return { firecracker_version: '1.16.1' }
      case 'GET /vm/config':
        return { drives: this.#guest?.drives ?? [] }
      case 'PATCH /vm':
        return this.#turn(body.state === 'Resumed')
      case 'PATCH /drives/disk':
        return this.#changeDisk(body)
      case 'PUT /snapshot/create':
        return this.#save(body)
      case 'PUT /actions':
        // Its guest has no keyboard.
        return void this.#present()
      case 'PUT /snapshot/load':
        return this.#load(body)
      default:
        throw new Refused(`no such request: ${asked}`)
    }
  }

  #present(): Guest {
    if (this.#guest === undefined) throw new Refused('the microVM has not started')
    return this.#guest
  }

  #turn(runs: boolean): void {
    this.#present()
    if (!runs && this.#isRunning) this.#isVsockHeld = true
    this.#isRunning = runs
  }

  #changeDisk({ path_on_host: path, rate_limiter: limiter }: Body): void {
    const drive = this.#present().drives.find(({ drive_id }) => drive_id === 'disk')
    if (drive === undefined) throw new Refused('no such drive')
    if (path !== undefined) statSync((drive.path_on_host = path))
    if (limiter !== undefined) drive.rate_limiter = { ...drive.rate_limiter, ...limiter }
  }

  #save({ snapshot_path: statePath = '', mem_file_path: memoryPath = '' }: Body): void {
    const guest = this.#present()
    if (this.#isRunning) throw new Refused('the microVM is not paused')
    this.#isVsockHeld = false
    if (!existsSync(dirname(statePath))) throw new Refused('no such directory')
    truncateSync(memoryPath)
    truncateSync(memoryPath, guest.memoryMib * MIB)
    writeFileSync(statePath, JSON.stringify(guest).padEnd(STATE_BYTES))
  }

  async #load({ snapshot_path: path = '', mem_backend: memory, vsock_override: vsock }: Body): Promise<void> {
    if (this.#guest !== undefined) throw new Refused('the microVM has started')
    try {
      const guest = JSON.parse(readFileSync(path, 'utf8')) as Guest
      if (statSync(memory?.backend_path ?? '').size < guest.memoryMib * MIB)
        throw new Refused('the memory is too short')
      await this.#take({ ...guest, agentPath: vsock?.uds_path ?? guest.agentPath })
    } catch (error) {
      // A load that failed ends the process, after its answer.
      setImmediate(() => this.end())
      throw error
    }
  }

  /** Connects one client to the agent in the guest: `CONNECT PORT`, then the agent's own lines. */
  #talk(socket: Socket): void {
    let isConnected = false
    socket.setEncoding('latin1').on('data', (chunk: string) => {
      for (const line of chunk.split('\n').filter((one) => one !== '')) {
        if (!this.#isRunning || this.#isVsockHeld) return
        if (isConnected && line.includes('"guest-shutdown"')) return this.end()
        if (isConnected) socket.write(this.#agentAnswer(line), 'latin1')
        else socket.write('OK 1\n')
        isConnected = true
      }
    })
  }

  #agentAnswer(line: string): string {
    const guest = this.#present()
    const { execute, arguments: args } = JSON.parse(line.replace('\xff', '')) as AgentRequest
    switch (execute) {
      case 'guest-sync-delimited':
        return `\xff{"return": ${args?.id}}\n`
      case 'guest-fsfreeze-freeze':
      case 'guest-fsfreeze-thaw':
        guest.isFrozen = execute === 'guest-fsfreeze-freeze'
        return '{"return": 1}\n'
      case 'guest-fsfreeze-status':
        return `{"return": "${guest.isFrozen ? 'frozen' : 'thawed'}"}\n`
      default:
        return '{"return": {}}\n'
    }
  }
}
