/**
 * A stand-in for QEMU that is small enough for a thousand VMs on one host. In each unit runs a socat, as the VM's user,
 * that listens on the control socket. It hands each connection to this process, which speaks as much of QMP as the daemon
 * asks for (stand-in-guest.ts). This process also holds the taps: the sandbox of a unit lets socat not name one.
 */
import { chmodSync, closeSync, constants, mkdirSync, openSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, Socket } from 'node:net'
import { createInterface } from 'node:readline'
import { sh } from '../lab/inside/shell.ts'
import { StandInGuest, VERSION } from './stand-in-guest.ts'
import { attach } from '../src/host/tap/tun-control.ts'
import type { Server } from 'node:net'
import type { DeviceName } from '../src/core/ids.ts'

/** Below /usr, which is the only part of the host that the root of a unit has. */
const FOLDER = '/usr/lib/vmhostd-stand-in'
export const STAND_IN_PROGRAM = `${FOLDER}/qemu`
/** A FIFO, because the shell can write to it without another program, which would count as a cost of ours. */
const BEGINNINGS = `${FOLDER}/beginnings`

/**
 * Answers `--version`. Otherwise it reports its tap, and whether its guest begins paused. Then it listens where
 * `-qmp unix:PATH,…` says until it is killed. A connection waits until the tap is held and the guest is there.
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
tap=\${tap%%,*}
if [ "$tap" ]; then
  echo "$tap $begins" >${BEGINNINGS}
fi
exec /usr/bin/socat "UNIX-LISTEN:\${path%%,*},fork" "UNIX-CONNECT:${FOLDER}/$tap.sock,retry=500,interval=0.02"
`

/** A guest that has begun, with what this process has of it. */
type Held = { readonly tapFd: number; readonly control: Server }

/** Installs the program, and answers for all its processes until `close`. Each disk has `diskMib`. */
export async function standInMonitors(diskMib: number): Promise<{ close(): void }> {
  mkdirSync(FOLDER, { recursive: true })
  writeFileSync(STAND_IN_PROGRAM, PROGRAM)
  chmodSync(STAND_IN_PROGRAM, 0o755)
  const held = new Map<string, Held>()
  const release = ({ tapFd, control }: Held): void => {
    closeSync(tapFd)
    control.close()
  }
  const begin = async (device: string, begins: string): Promise<void> => {
    const earlier = held.get(device)
    // The daemon may have made another tap of the same name since.
    if (earlier !== undefined) release(earlier)
    const tapFd = openSync('/dev/net/tun', 'r+')
    attach(tapFd, device as DeviceName, { exclusive: false })
    const guest = new StandInGuest(diskMib, begins === 'paused' ? 'paused' : 'running')
    const control = await listen(`${FOLDER}/${device}.sock`, (socket) => {
      lines(socket, (line) => socket.write(guest.answer(line)))
      socket.write(guest.greeting())
    })
    held.set(device, { tapFd, control })
  }
  rmSync(BEGINNINGS, { force: true })
  await sh('mkfifo', '--mode=0622', BEGINNINGS)
  // Open for writing too, so that it does not end between two writers.
  const beginnings = new Socket({ fd: openSync(BEGINNINGS, constants.O_RDWR | constants.O_NONBLOCK) })
  lines(beginnings, (line) => {
    const [device = '', begins = ''] = line.split(' ')
    void begin(device, begins)
  })
  return {
    close() {
      beginnings.destroy()
      for (const one of held.values()) release(one)
    },
  }
}

async function listen(path: string, onSocket: (socket: Socket) => void): Promise<Server> {
  rmSync(path, { force: true })
  const server = createServer(onSocket)
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  server.once('error', reject)
  server.listen({ path, backlog: 4096 }, resolve)
  await promise
  // Each VM's user connects to it.
  chmodSync(path, 0o777)
  return server
}

function lines(socket: Socket, onLine: (line: string) => void): void {
  // The daemon ends its connections without notice: when it is killed, and when it ends a monitor.
  const onError = (): void => void socket.destroy()
  socket.on('error', onError)
  createInterface({ input: socket }).on('line', onLine).on('error', onError)
}
