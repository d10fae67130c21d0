import sys

from ringlet import slowdata

with slowdata.Sender(sys.argv[1]) as sender:
    sender.send("temp", 21.5, 1796040000.25)
    sender.send("beam", 'on "target"', 1796040001)
    try:
        sender.send("no", 3, 1796040002)
    except slowdata.Unkept as why:
        print(why)
    try:
        sender.send("a b", 1)
        sys.exit("a name with a blank is sent")
    except ValueError:
        pass
