/**
 * A stand-in for QEMU that is small enough for a thousand VMs on one host. In each unit runs a socat, as the VM's user,
 * that listens on the control socket. It hands each connection to this process, which speaks as much of QMP as the daemon
 * asks for (stand-in-guest.ts). This process also holds the taps: the sandbox of a unit lets socat not name one.
 */
import { chmodSync, closeSync, mkdirSync, openSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { createInterface } from 'node:readline'
import { StandInGuest, VERSION } from './stand-in-guest.ts'
import { attach } from '../src/host/tap/tun-control.ts'
import type { Server, Socket } from 'node:net'
import type { DeviceName } from '../src/core/ids.ts'

/** Below /usr, which is the only part of the host that the root of a unit has. */
const FOLDER = '/usr/lib/vmhostd-stand-in'
export const STAND_IN_PROGRAM = `${FOLDER}/qemu`
const TAPS = `${FOLDER}/taps.sock`

/**
 * Answers `--version`. Otherwise it reports its tap, and whether its guest begins paused. The report ends with an end of
 * input when the tap is held and the guest is there. Then it listens where `-qmp unix:PATH,…` says until it is killed.
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
  echo "$tap $begins" | /usr/bin/socat -t 10 - UNIX-CONNECT:${TAPS}
fi
exec /usr/bin/socat "UNIX-LISTEN:\${path%%,*},fork" "UNIX-CONNECT:${FOLDER}/$tap.sock"
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
  const taps = await listen(TAPS, (socket) => {
    lines(socket, (line) => {
      const [device = '', begins = ''] = line.split(' ')
      void begin(device, begins).then(() => socket.end())
    })
  })
  return {
    close() {
      taps.close()
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
