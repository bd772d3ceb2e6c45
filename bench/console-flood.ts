/* Writes to the named terminal without a pause, as `yes` in a guest would, until it is killed. */
import { constants, openSync, writeSync } from 'node:fs'

const [path = ''] = process.argv.slice(2)
const slave = openSync(path, constants.O_RDWR | constants.O_NOCTTY)
const lines = Buffer.from('all work and no play makes a noisy guest\r\n'.repeat(90))
process.stdout.write('ready\n')
for (;;) writeSync(slave, lines)
