/* Echoes at once what comes in on the named terminal, as the far end of a console would. */
import { constants, openSync, readSync, writeSync } from 'node:fs'

const [path = ''] = process.argv.slice(2)
const slave = openSync(path, constants.O_RDWR | constants.O_NOCTTY)
const bytes = Buffer.alloc(4096)
process.stdout.write('ready\n')
for (;;) {
  const length = readSync(slave, bytes)
  writeSync(slave, bytes, 0, length)
}
