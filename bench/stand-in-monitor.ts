/**
 * A stand-in for QEMU that is small enough for a thousand VMs on one host. In each unit runs a process that only sleeps.
 * Its control socket is in the unit's directory and belongs to the VM's user, as a monitor's does, but this process
 * listens on it. It speaks as much of QMP as the daemon asks for (stand-in-guest.ts). So a connection costs the host as
 * little as one to QEMU, which answers in the process that it has. This process also holds the taps.
 */
import {
  chmodSync,
  closeSync,
  constants,
  existsSync,
  lstatSync,
  mkdirSync,
  openSync,
  rmSync,
  watch,
  writeFileSync,
} from 'node:fs'
import { createServer, Socket } from 'node:net'
import { dirname } from 'node:path'
import { createInterface } from 'node:readline'
import { sh } from '../lab/inside/shell.ts'
import { StandInGuest, VERSION } from './stand-in-guest.ts'
import { attach } from '../src/host/tap/tun-control.ts'
import type { FSWatcher } from 'node:fs'
import type { Server } from 'node:net'
import type { DeviceName } from '../src/core/ids.ts'

/** Below /usr, which is the only part of the host that the root of a unit has. */
const FOLDER = '/usr/lib/vmhostd-stand-in'
export const STAND_IN_PROGRAM = `${FOLDER}/qemu`
/** A FIFO, because the shell can write to it without another program, which would count as a cost of ours. */
const BEGINNINGS = `${FOLDER}/beginnings`

/**
 * Answers `--version`. Otherwise it reports its tap, whether its guest begins paused, and the path of its control socket.
 * Then it sleeps until it is killed.
 */
const PROGRAM = `#!/usr/bin/sh
if [ "$1" = --version ]; then
  echo "QEMU emulator version ${Object.values(VERSION).join('.')}"
  exit
fi
begins=running
for argument; do
  case "$argument" in
    tap,*) tap=\${argument#*,ifname=} ;;
    unix:*/qmp.sock,*) path=\${argument#unix:} ;;
    -S) begins=paused ;;
  esac
done
if [ "$tap" ]; then
  echo "\${tap%%,*} $begins \${path%%,*}" >${BEGINNINGS}
fi
exec /usr/bin/sleep infinity
`

/** Installs the program, and answers for all its processes until `close`. Each disk has `diskMib`. */
export async function standInMonitors(diskMib: number): Promise<{ close(): void }> {
  mkdirSync(FOLDER, { recursive: true })
  writeFileSync(STAND_IN_PROGRAM, PROGRAM)
  chmodSync(STAND_IN_PROGRAM, 0o755)
  const held = new Map<string, HeldGuest>()
  rmSync(BEGINNINGS, { force: true })
  await sh('mkfifo', '--mode=0622', BEGINNINGS)
  // Open for writing too, so that it does not end between two writers.
  const beginnings = new Socket({ fd: openSync(BEGINNINGS, constants.O_RDWR | constants.O_NONBLOCK) })
  lines(beginnings, (line) => {
    const [device = '', begins = '', path = ''] = line.split(' ')
    // Its unit may have ended without our notice, and the daemon may have made another tap of the same name since.
    held.get(device)?.end()
    const guest = new StandInGuest(diskMib, begins === 'paused' ? 'paused' : 'running')
    held.set(device, new HeldGuest(device as DeviceName, path, guest))
  })
  return {
    close() {
      beginnings.destroy()
      for (const one of held.values()) one.end()
    },
  }
}

/** A guest that has begun, with its tap and its control socket. It ends with its unit, which takes its directory along. */
class HeldGuest {
  readonly #tapFd: number
  readonly #control: Server
  readonly #sockets = new Set<Socket>()
  readonly #directory: FSWatcher
  #ended = false

  constructor(device: DeviceName, path: string, guest: StandInGuest) {
    this.#tapFd = openSync('/dev/net/tun', 'r+')
    attach(this.#tapFd, device, { exclusive: false })
    this.#control = createServer((socket) => {
      this.#sockets.add(socket)
      socket.once('close', () => this.#sockets.delete(socket))
      lines(socket, (line) => socket.write(guest.answer(line)))
      socket.write(guest.greeting())
    })
    asUser(lstatSync(dirname(path)).uid, () => this.#control.listen({ path, backlog: 16 }))
    this.#directory = watch(dirname(path), () => {
      if (!existsSync(path)) this.end()
    })
  }

  end(): void {
    if (this.#ended) return
    this.#ended = true
    this.#directory.close()
    this.#control.close()
    for (const socket of this.#sockets) socket.destroy()
    closeSync(this.#tapFd)
  }
}

/** Does the work as the VM's user: the daemon asks the kernel who listens (SO_PEERCRED, unix(7)). */
function asUser(user: number, work: () => void): void {
  process.seteuid?.(user)
  try {
    work()
  } finally {
    process.seteuid?.(0)
  }
}

function lines(socket: Socket, onLine: (line: string) => void): void {
  // The daemon ends its connections without notice: when it is killed, and when it ends a monitor.
  const onError = (): void => void socket.destroy()
  socket.on('error', onError)
  createInterface({ input: socket }).on('line', onLine).on('error', onError)
}
