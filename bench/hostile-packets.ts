/*
 * Writes frames into the tap of a stopped monitor as fast as one core can, each of another flow, until it is killed.
 * Arguments: the monitor's process id, the MAC addresses of guest and tap, the guest's IPv4 address, the destination.
 */
import { readdirSync, readlinkSync, writeSync } from 'node:fs'
import { ErrnoError } from '../src/host/ffi/errno-error.ts'
import { errno, library } from '../src/host/ffi/koffi.ts'

const [pid = '', guestMac = '', tapMac = '', source = '', destination = ''] = process.argv.slice(2)

/** Numbers from asm-generic/unistd.h and linux/if_tun.h; the same on x86-64 and arm64. */
const PIDFD_OPEN = 434
const PIDFD_GETFD = 438
const TUNGETVNETHDRSZ = 0x800454d7
const ETHERTYPE_IPV4 = 0x0800
const UDP = 17
const UDP_AT = 14 + 20
const PAYLOAD_BYTES = 18

const libc = library('libc.so.6')
const syscall = libc.func('long syscall(long number, long first, long second, long third)')
const ioctl = libc.func('int ioctl(int fd, unsigned long request, void *value)')

const tap = tapOf(Number(pid))
const header = new Int32Array(1)
check('TUNGETVNETHDRSZ', Number(ioctl(tap, TUNGETVNETHDRSZ, header)))
const headerBytes = header[0] ?? 0
const bytes = Buffer.concat([Buffer.alloc(headerBytes), frame()])
process.stdout.write('ready\n')
for (let flow = 0; ; flow += 1) {
  bytes.writeUInt16BE(1024 + (flow % 60_000), headerBytes + UDP_AT)
  bytes.writeUInt16BE(1024 + (Math.floor(flow / 60_000) % 60_000), headerBytes + UDP_AT + 2)
  writeSync(tap, bytes)
}

/** Returns a descriptor of the monitor's own queue (pidfd_getfd(2)), because a tap has only one. */
function tapOf(monitor: number): number {
  const directory = `/proc/${monitor}/fd`
  const number = readdirSync(directory).find((fd) => readlinkSync(`${directory}/${fd}`) === '/dev/net/tun')
  if (number === undefined) throw new Error(`process ${monitor} has no tap`)
  const process = check('pidfd_open', Number(syscall(PIDFD_OPEN, monitor, 0, 0)))
  return check('pidfd_getfd', Number(syscall(PIDFD_GETFD, process, Number(number), 0)))
}

function check(doing: string, result: number): number {
  if (result < 0) throw new ErrnoError(doing, errno())
  return result
}

function frame(): Buffer {
  const mac = (text: string): Buffer => Buffer.from(text.replaceAll(':', ''), 'hex')
  const address = (text: string): Buffer => Buffer.from(text.split('.').map(Number))
  const ethernet = Buffer.concat([mac(tapMac), mac(guestMac), Buffer.of(ETHERTYPE_IPV4 >> 8, 0)])
  const ip = Buffer.alloc(12)
  ip.set([0x45, 0])
  ip.writeUInt16BE(20 + 8 + PAYLOAD_BYTES, 2)
  ip.set([64, UDP], 8)
  const head = Buffer.concat([ip, address(source), address(destination)])
  head.writeUInt16BE(checksum(head), 10)
  const udp = Buffer.alloc(8 + PAYLOAD_BYTES)
  udp.writeUInt16BE(udp.length, 4)
  return Buffer.concat([ethernet, head, udp])
}

/** The checksum of RFC 1071. */
function checksum(head: Buffer): number {
  let sum = 0
  for (let at = 0; at < head.length; at += 2) sum += head.readUInt16BE(at)
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16)
  return ~sum & 0xffff
}
