/**
 * A stand-in for QEMU that is small enough for a thousand VMs on one host. In each unit runs a process that only
 * sleeps. Its control socket is in the unit's directory and belongs to the VM's user, as a monitor's does, but this
 * process listens on it. It speaks as much of QMP as the daemon asks for (stand-in-guest.ts). So a connection costs the
 * host as little as one to QEMU, which answers in the process that it has. This process also holds the taps.
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
import { sh } from '../lab/inside/shell.ts'
import { StandInGuest, VERSION } from './stand-in-guest.ts'
import { errno, library } from '../src/host/ffi/koffi.ts'
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
 * Answers `--version`. Otherwise it reports its tap, whether its guest begins paused, and the path of its control
 * socket. Then it sleeps until it is killed.
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

/**
 * A guest that has begun, with its tap and its control socket. It ends with its unit, which takes its directory along.
 */
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

/** asm/unistd_64.h and asm-generic/unistd.h of Linux. */
const SYS_SETRESUID = { x64: 117, arm64: 147 }[process.arch as 'x64' | 'arm64']
const syscall = library('libc.so.6').func('long syscall(long number, int real, int effective, int saved)')

/**
 * Does the work as the VM's user: the daemon asks the kernel who listens (SO_PEERCRED, unix(7)). The user changes for
 * this thread alone. The function of the C library changes it for all threads, and interrupts each of them for that
 * (nptl(7)), which would count as a cost of ours.
 */
function asUser(user: number, work: () => void): void {
  setEffectiveUser(user)
  try {
    work()
  } finally {
    setEffectiveUser(0)
  }
}

function setEffectiveUser(user: number): void {
  const KEPT = -1
  if (syscall(SYS_SETRESUID, KEPT, user, KEPT) !== 0) throw new Error(`setresuid ${user}: errno ${errno()}`)
}

function lines(socket: Socket, onLine: (line: string) => void): void {
  let rest = ''
  socket.setEncoding('utf8')
  socket.on('data', (text: string) => {
    const parts = (rest + text).split('\n')
    rest = parts.pop() ?? ''
    parts.forEach(onLine)
  })
  // The daemon ends its connections without notice: when it is killed, and when it ends a monitor.
  socket.on('error', () => socket.destroy())
}
