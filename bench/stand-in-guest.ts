/** The guest of a stand-in monitor: it does nothing, and can be paused, saved and restored. */
import { writeFileSync } from 'node:fs'

export const VERSION = { major: 10, minor: 0, micro: 2 }
const MIB = 1024 * 1024
const NO_TRAFFIC = { rd_bytes: 0, rd_operations: 0, wr_bytes: 0, wr_operations: 0 }
/** All that is saved of such a guest. */
const MEMORY = 'the memory of a stand-in'

type Command = {
  readonly execute: string
  readonly id: number
  readonly arguments?: Readonly<Record<string, unknown>>
}

/** Speaks as much of QMP (QEMU, docs/interop/qmp-spec) as the daemon asks for. */
export class StandInGuest {
  readonly #diskMib: number
  #status: 'running' | 'paused' | 'postmigrate'
  #migration: 'none' | 'completed' = 'none'

  constructor(diskMib: number, begins: 'running' | 'paused') {
    this.#diskMib = diskMib
    this.#status = begins
  }

  /** Returns the first line of a connection. */
  greeting(): string {
    return line({ QMP: { version: { qemu: VERSION, package: '' }, capabilities: [] } })
  }

  /** Returns the answer to one line. */
  answer(text: string): string {
    const { execute, id, arguments: given } = JSON.parse(text) as Command
    return line({ return: this.#run(execute, given), id })
  }

  #run(command: string, given: Command['arguments']): unknown {
    switch (command) {
      case 'query-status':
        return { status: this.#status, running: this.#status === 'running' }
      case 'query-block':
        return [blockInfo(this.#diskMib)]
      case 'query-blockstats':
        return [{ 'node-name': 'disk', stats: NO_TRAFFIC }]
      case 'query-chardev':
        return [{ label: 'agent', 'frontend-open': false }]
      case 'query-migrate':
        return { status: this.#migration }
      case 'migrate':
        this.#save(String(given?.['uri']))
        return {}
      case 'stop':
        this.#status = 'paused'
        return {}
      case 'cont':
        this.#status = 'running'
        return {}
      default:
        return {}
    }
  }

  /** Saves into the file that the daemon made (QEMU, `file:` URIs of migrate). */
  #save(uri: string): void {
    writeFileSync(uri.replace(/^file:/, ''), MEMORY, { flag: 'r+' })
    this.#migration = 'completed'
    this.#status = 'postmigrate'
  }
}

const line = (message: object): string => `${JSON.stringify(message)}\n`

const blockInfo = (diskMib: number): object => ({
  qdev: '/machine/peripheral/disk/virtio-backend',
  inserted: { 'node-name': 'disk', image: { 'virtual-size': diskMib * MIB }, iops: 0, bps: 0 },
})
