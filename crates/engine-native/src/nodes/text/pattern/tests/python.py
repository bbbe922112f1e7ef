"""Makes random patterns and records what Python's `re` finds with them: `python3 python.py SEED COUNT > python.json`."""
import random, re, json, sys, signal
warn=__import__('warnings'); warn.simplefilter('ignore')
R=random.Random(int(sys.argv[1]) if len(sys.argv)>1 else 20261123)
N=int(sys.argv[2]) if len(sys.argv)>2 else 1500
ATOMS=['a','b','c','a','b','.','[ab]','[^a]','\\w','\\s','\\d','ä','\\n','B',r'\W','[^\\w]','x',r'[\d_]']
def atom(d,g):
    r=R.random()
    if d>0 and r<.30:
        k=R.random()
        if k<.35: g[0]+=1; return '('+alt(d-1,g)+')'
        if k<.6: return '(?:'+alt(d-1,g)+')'
        if k<.68: return '(?='+alt(d-1,g)+')'
        if k<.76: return '(?!'+alt(d-1,g)+')'
        if k<.82: return '(?<='+R.choice(['a','b','[ab]b','a|b','\\w','(?:ab)','ab|c'])+')'
        if k<.87: return '(?<!'+R.choice(['a','b','ab','.'])+')'
        if k<.93: return '(?>'+alt(d-1,g)+')'
        if g[0]>0: return '(?(%d)'%R.randint(1,g[0])+cat(d-1,g)+'|'+cat(d-1,g)+')'
        return 'a'
    if r<.36 and g[0]>0: return '\\%d'%R.randint(1,g[0])
    if r<.44: return R.choice(['^','$','\\b','\\B','\\A','\\Z'])
    return R.choice(ATOMS)
QUANT=['*','+','?','*?','+?','??','{2}','{1,2}','{0,2}','{,2}','{2,}','{1,3}?','*+','++','?+']
def piece(d,g):
    x=atom(d,g)
    fixed = x in ('^','$','\\b','\\B','\\A','\\Z') or x.startswith(('(?=','(?!','(?<'))
    if not fixed and R.random()<.38: x+=R.choice(QUANT)
    return x
def cat(d,g): return ''.join(piece(d,g) for _ in range(R.randint(0 if d<2 else 1,3)))
def alt(d,g):
    n=1 if R.random()<.7 else R.randint(2,3)
    return '|'.join(cat(d,g) for _ in range(n))
def text(): return ''.join(R.choice('aaabbbc äB\nx1_') for _ in range(R.randint(0,9)))
class TO(Exception): pass
def h(*a): raise TO()
signal.signal(signal.SIGALRM,h)
out=[]; seen=set()
while len(out)<N:
    g=[0]; p=alt(3,g); flags=''.join(f for f in 'ims' if R.random()<.2); t=text()
    if (p,flags,t) in seen: continue
    seen.add((p,flags,t))
    try:
        c=re.compile(p,(re.I if 'i' in flags else 0)|(re.M if 'm' in flags else 0)|(re.S if 's' in flags else 0))
    except (re.error,RecursionError):
        if R.random()<.15: out.append([p,flags,t,None])
        continue
    b=lambda i: len(t[:i].encode())
    try:
        signal.setitimer(signal.ITIMER_REAL,.5)
        f=[[ (None if m.span(i)==(-1,-1) else [b(m.span(i)[0]),b(m.span(i)[1])]) for i in range(c.groups+1)] for m in c.finditer(t)]
        signal.setitimer(signal.ITIMER_REAL,0)
    except TO: continue
    out.append([p,flags,t,f])
print('['+',\n'.join(json.dumps(o,ensure_ascii=False,separators=(',',':')) for o in out)+']')
