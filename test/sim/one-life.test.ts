import { calm } from './chaos.ts'
import { ACTS, testOneLife } from './one-life.ts'

testOneLife('a daemon that dies', ACTS, calm)
