import { hostname } from 'node:os'
import { markPool } from '../host/pool/pool-marker.ts'
import { readAsset } from './assets.ts'
import { setup } from './setup/setup.ts'

/** Runs `vmhostd setup`. */
export const setupCommand = (args: readonly string[]): Promise<number> =>
  setup(args, {
    hostname: hostname(),
    nowMs: Date.now(),
    exampleConfig: Buffer.from(readAsset('config.example.toml')).toString(),
    async markPool(directory) {
      const { reflink } = await markPool(directory)
      return reflink
        ? []
        : ['its file system cannot share blocks, so every new disk is a full copy; XFS and btrfs can']
    },
    print: (text) => console.log(text),
    printError: (text) => console.error(text),
  })
