/**
 * Carries frames between a tap of the host and a device `eth0` that it makes in a guest's network namespace, as a
 * monitor does between a tap and a virtual network card. It also sends frames in hexadecimal, one per line, from
 * standard input to the host.
 *
 * Arguments: the tap, and the file of the namespace.
 */
import { openSync, read, writeSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import { errno, library } from '../../src/host/ffi/koffi.ts'
import { attachTap } from './attach-tap.ts'

const [device = '', namespace = ''] = process.argv.slice(2)
const CLONE_NEWNET = 0x40000000

const setns = library('libc.so.6').func('int setns(int fd, int type)')

async function pump(from: number, to: number): Promise<never> {
  const frame = Buffer.alloc(65_536)
  for (;;) {
    const { bytesRead } = await promisify(read)(from, frame, 0, frame.length, null).catch(() => {
      // The device was deleted.
      process.exit()
    })
    send(to, frame.subarray(0, bytesRead))
  }
}

function send(to: number, frame: Buffer): void {
  try {
    writeSync(to, frame)
  } catch {
    // EIO: the device is down. A wire loses frames too.
  }
}

const host = attachTap(device)
if (setns(openSync(namespace, 'r'), CLONE_NEWNET) !== 0) throw new Error(`setns: errno ${errno()}`)
const guest = attachTap('eth0')
createInterface({ input: process.stdin }).on('line', (hex) => send(host, Buffer.from(hex, 'hex')))
console.log('ready')
await Promise.all([pump(host, guest), pump(guest, host)])
